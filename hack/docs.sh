#!/usr/bin/env bash
# Runs mkdocs in an environment of its own from requirements/docs.txt: `make docs` and
# `make docs-serve` call it with the arguments of mkdocs.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv/docs

if [ ! -e "$venv/.stamp" ] || [ requirements/docs.txt -nt "$venv/.stamp" ]; then
    uv=$(hack/find-uv.sh)
    echo "Installing requirements/docs.txt into $venv" >&2
    "$uv" venv --quiet --clear --python 3.11 "$venv"
    "$uv" pip sync --quiet --python "$venv" --require-hashes requirements/docs.txt
    touch "$venv/.stamp"
fi
export NO_MKDOCS_2_WARNING=1
# As a module, so that mkdocs.yml can name functions of hack/.
exec "$venv/bin/python" -m mkdocs "$@"

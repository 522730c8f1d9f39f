#!/usr/bin/env bash
# Runs a command with the packages of a lock file in addition to those of .venv:
#   hack/with-packages.sh requirements/trainers.txt .venv/bin/python -m pytest -m trainers
# They are installed into .venv/<name of the lock file> the first time and when the file changes.
# They are no part of .venv because most changes do not need them: TensorFlow alone takes a gigabyte.
set -euo pipefail
lock=${1:?expected a lock file, such as requirements/trainers.txt}
shift
cd "$(dirname "$0")/.."
packages=.venv/$(basename "$lock" .txt)

if [ ! -e "$packages/.stamp" ] || [ "$lock" -nt "$packages/.stamp" ]; then
    uv=$(hack/find-uv.sh)
    echo "Installing $lock into $packages" >&2
    rm -rf "$packages"
    UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-300} "$uv" pip install --quiet --python .venv/bin/python --no-deps \
        --require-hashes --compile-bytecode --target "$packages" --requirement "$lock"
    touch "$packages/.stamp"
fi
PYTHONPATH=$PWD/$packages${PYTHONPATH:+:$PYTHONPATH} exec "$@"

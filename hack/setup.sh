#!/usr/bin/env bash
# Makes .venv in the tree from the hash lock and installs this project into it,
# editable and without resolving anything. Run it by `make setup`, which calls it
# only when a lock or pyproject.toml is newer than the stamp it leaves.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(hack/find-uv.sh)

# torch's wheels are large: give a slow line more than the default 30 seconds.
export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-300}
export VIRTUAL_ENV=$PWD/.venv

if ! .venv/bin/python --version >/dev/null 2>&1; then
    "$uv" venv --quiet --clear --python 3.11 .venv
fi
echo "Installing requirements/dev.txt into .venv (the first time this fetches a few GB)" >&2
# Compiled once here (40 s on two cores): a run starts a dozen Python processes, and where bytecode
# may not be written each of them would compile Ray and torch again.
"$uv" pip sync --quiet --require-hashes --compile-bytecode requirements/dev.txt
"$uv" pip install --quiet --no-deps --no-build-isolation --editable .
touch .venv/.stamp

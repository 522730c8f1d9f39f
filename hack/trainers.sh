#!/usr/bin/env bash
# Runs a command with Lightning, Transformers and Accelerate in addition to the packages of .venv,
# from their own lock file: a run that trains with one of them names it in code.pip.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(hack/find-uv.sh)
packages=.venv/trainers

if [ ! -e "$packages/.stamp" ] || [ requirements/trainers.txt -nt "$packages/.stamp" ]; then
    echo "Installing requirements/trainers.txt into $packages" >&2
    rm -rf "$packages"
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --require-hashes \
        --target "$packages" --requirement requirements/trainers.txt
    touch "$packages/.stamp"
fi
PYTHONPATH=$PWD/$packages${PYTHONPATH:+:$PYTHONPATH} exec "$@"

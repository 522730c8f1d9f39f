#!/usr/bin/env bash
# Runs a command with torchvision in addition to the packages of .venv, from its own lock file: nothing of
# ours needs it but the benchmark that compares with it.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(hack/find-uv.sh)
packages=.venv/torchvision

if [ ! -e "$packages/.stamp" ] || [ requirements/torchvision.txt -nt "$packages/.stamp" ]; then
    echo "Installing requirements/torchvision.txt into $packages" >&2
    rm -rf "$packages"
    "$uv" pip install --quiet --python .venv/bin/python --no-deps --require-hashes \
        --target "$packages" --requirement requirements/torchvision.txt
    touch "$packages/.stamp"
fi
PYTHONPATH=$PWD/$packages${PYTHONPATH:+:$PYTHONPATH} exec "$@"

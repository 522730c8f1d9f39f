#!/usr/bin/env bash
# Runs a command that finds TensorFlow and Keras 2 beside the packages of .venv, by the lock of their
# image. They are no part of .venv: a gigabyte that most changes do not need.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(hack/find-uv.sh)
packages=.venv/tensorflow

if [ ! -e "$packages/.stamp" ] || [ images/app/tensorflow.txt -nt "$packages/.stamp" ]; then
    echo "Installing images/app/tensorflow.txt into $packages" >&2
    rm -rf "$packages"
    UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-300} "$uv" pip install --quiet --python .venv/bin/python --no-deps \
        --require-hashes --compile-bytecode --target "$packages" --requirement images/app/tensorflow.txt
    touch "$packages/.stamp"
fi
PYTHONPATH=$PWD/$packages${PYTHONPATH:+:$PYTHONPATH} exec "$@"

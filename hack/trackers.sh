#!/usr/bin/env bash
# Runs a command that finds W&B's client beside the packages of .venv, and the servers of MLflow and
# TensorBoard in an environment of their own, by their locks. Most changes do not need them.
set -euo pipefail
cd "$(dirname "$0")/.."
servers=.venv/trackers lock=requirements/trackers.txt

if [ ! -e "$servers/.stamp" ] || [ "$lock" -nt "$servers/.stamp" ]; then
    uv=$(hack/find-uv.sh)
    echo "Installing $lock into $servers" >&2
    rm -rf "$servers"
    "$uv" venv --quiet --python .venv/bin/python "$servers"
    "$uv" pip install --quiet --python "$servers/bin/python" --require-hashes --requirement "$lock"
    touch "$servers/.stamp"
fi
export TRAINSHED_TRACKERS=$PWD/$servers/bin
exec hack/with-packages.sh requirements/wandb.txt "$@"

#!/usr/bin/env bash
# Runs a command that finds W&B's client beside the packages of .venv, and the servers of MLflow and
# TensorBoard in an environment of their own, by their locks. Most changes do not need them.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(hack/find-uv.sh)
servers=.venv/trackers client=.venv/wandb

for lock in trackers wandb; do
    if [ ! -e ".venv/$lock/.stamp" ] || [ "requirements/$lock.txt" -nt ".venv/$lock/.stamp" ]; then
        echo "Installing requirements/$lock.txt into .venv/$lock" >&2
        rm -rf ".venv/$lock"
        if [ "$lock" = trackers ]; then
            "$uv" venv --quiet --python .venv/bin/python "$servers"
            "$uv" pip install --quiet --python "$servers/bin/python" --require-hashes --requirement requirements/trackers.txt
        else
            "$uv" pip install --quiet --python .venv/bin/python --no-deps --require-hashes --target "$client" --requirement requirements/wandb.txt
        fi
        touch ".venv/$lock/.stamp"
    fi
done
export TRAINSHED_TRACKERS=$PWD/$servers/bin
PYTHONPATH=$PWD/$client${PYTHONPATH:+:$PYTHONPATH} exec "$@"

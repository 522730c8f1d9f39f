#!/usr/bin/env bash
# Resolves every requirements .in file again and writes the hash-locked .txt next to it.
# Run it by `make lock` after a change of an .in file, or to take newer versions
# (`make lock UPGRADE=1`). The locks name no registry and no path: where packages
# come from is a matter of the machine that installs them.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(hack/find-uv.sh)

compile() {
    "$uv" pip compile "$1.in" --output-file "$1.txt" --quiet "${@:2}" \
        --universal --python-version 3.11 --generate-hashes \
        --no-annotate --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" ${UPGRADE:+--upgrade}
}

compile requirements/uv
compile images/app/requirements
compile images/app/xgboost
compile images/app/tensorflow
compile images/controller/requirements
compile requirements/dev
compile requirements/docs
compile requirements/release
compile requirements/torchvision --no-deps
compile requirements/trackers
compile requirements/wandb
compile requirements/trainers --no-deps

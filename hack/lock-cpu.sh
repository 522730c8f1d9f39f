#!/usr/bin/env bash
# Writes cpu.txt beside requirements.txt of the training image: the same versions with the torch of
# PyTorch's CPU index, without CUDA. Git ignores it. The release workflow and `make kind` run it before
# they build the CPU image: docker build --build-arg LOCK=cpu.txt. Takes the folder of the two files;
# TORCH_LINKS is a folder or page with wheels of torch other than PyTorch's.
set -euo pipefail
folder=$(realpath "${1:-$(dirname "$0")/../images/app}")
cd "$(dirname "$0")/.."
links=${TORCH_LINKS:-https://download.pytorch.org/whl/cpu/torch/}
torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$folder/requirements.txt")

# The lock says where its torch is, so that whoever installs it need not know.
"$(hack/find-uv.sh)" pip compile "$folder/requirements.in" --output-file "$folder/cpu.txt" --quiet \
    --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --emit-find-links \
    --find-links "$links" --constraint "$folder/requirements.txt" \
    --constraint <(echo "torch==$torch+cpu") --custom-compile-command hack/lock-cpu.sh

#!/usr/bin/env bash
# Runs a command that finds Azurite, an object store that speaks as Azure's, by its lock. It needs
# Node.js and npm, which most machines that work on this have no other use for.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=.venv/azurite

if [ ! -e "$packages/.stamp" ] || [ hack/azurite/package-lock.json -nt "$packages/.stamp" ]; then
    echo "Installing hack/azurite/package-lock.json into $packages" >&2
    mkdir -p "$packages"
    cp hack/azurite/package*.json "$packages"
    npm ci --prefix "$packages" --ignore-scripts --no-fund --no-audit --silent
    touch "$packages/.stamp"
fi
PATH=$PWD/$packages/node_modules/.bin:$PATH exec "$@"

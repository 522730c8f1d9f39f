#!/usr/bin/env bash
# Runs a command with one pinned version of Azurite on PATH, an object store that speaks the
# protocol of Azure Blob Storage. It needs Node.js and npm.
set -euo pipefail
cd "$(dirname "$0")/.."
version=3.37.0
sha512=dl2AXMkXtVlX9s3U3ttIQFFlKwe64k/ugSIVNT4V3qX488Ncw988rIHAs6apgUtfEzyqwtFN9MZp0Foq60Htag==
packages=.venv/azurite-$version

if [ ! -e "$packages/.stamp" ]; then
    echo "Installing azurite $version into $packages" >&2
    mkdir -p "$packages"
    tarball=$packages/$(npm pack "azurite@$version" --pack-destination "$packages" --silent)
    got=$(openssl dgst -sha512 -binary "$tarball" | base64 --wrap=0)
    if [ "$got" != "$sha512" ]; then
        echo "azurite $version: got sha512 $got; expected $sha512." \
            "Check which registry npm uses." >&2
        exit 1
    fi
    npm install --prefix "$packages" --ignore-scripts --no-fund --no-audit --silent "$tarball"
    touch "$packages/.stamp"
fi
PATH=$PWD/$packages/node_modules/.bin:$PATH exec "$@"

#!/usr/bin/env bash
# Prints the path of a working uv: the one on PATH, else one of our own that it
# installs, by hash, into the user's cache. `pip --target` is used because a bare
# Debian has no venv module and refuses to install into its own Python.
set -euo pipefail
cd "$(dirname "$0")/.."

if uv --version >/dev/null 2>&1; then
    command -v uv
    exit
fi

version=$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements/uv.txt)
home=${XDG_CACHE_HOME:-$HOME/.cache}/trainshed/uv-$version
if [ ! -x "$home/bin/uv" ]; then
    echo "uv is not on PATH: installing uv $version into $home" >&2
    python3 -m pip install --quiet --disable-pip-version-check --require-hashes --root-user-action=ignore \
        --target "$home" -r requirements/uv.txt >&2
fi
echo "$home/bin/uv"

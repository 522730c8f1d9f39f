#!/usr/bin/env bash
# Tests the seams in Ray against another release of it, in a separate environment:
# everything of the lock but Ray, which comes without its hash. What fails is what breaks.
set -euo pipefail
cd "$(dirname "$0")/.."
release=${1:?which release of Ray: make seams RAY=2.60.0}
uv=$(hack/find-uv.sh)

export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-300}
export VIRTUAL_ENV=$PWD/build/ray-$release
if ! [ -e "$VIRTUAL_ENV/.stamp" ]; then
    "$uv" venv --quiet --clear --python 3.11 "$VIRTUAL_ENV"
    "$uv" pip sync --quiet --require-hashes requirements/dev.txt
    "$uv" pip install --quiet --no-deps --no-build-isolation --editable .
    "$uv" pip install --quiet "ray[data,default,train]==$release"
    touch "$VIRTUAL_ENV/.stamp"
fi
# First which names exist, then how they behave.
behaviour=(tests/app/ray_train/test_{trainer,relay,later,lost,process_group}.py tests/app/ray_compat/test_lost_nodes.py)
exec "$VIRTUAL_ENV/bin/python" -m pytest -q -p no:cacheprovider tests/ray_compat "${behaviour[@]}"

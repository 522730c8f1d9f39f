#!/usr/bin/env bash
# Installs what is in dist/ as a user does who has no clone: in an empty folder. The chart is checked and
# rendered from its package. The wheel is installed with its dependencies, makes data and checks a run.
# Run it by `make release-check`, after `make release`.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$PWD/dist
sample=$PWD/manifests/trainingrun.yaml
uv=$(hack/find-uv.sh)
helm=$("$uv" run --quiet --no-project --python 3.11 python -m hack.tools helm)
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT

(cd "$dist" && sha256sum --check --quiet SHA256SUMS)
cd "$empty"
"$helm" lint --strict "$dist"/*.tgz --set preset=laptop
"$helm" template trainshed "$dist"/*.tgz --set preset=laptop --kube-version 1.35 >install.yaml
"$uv" venv --quiet --python 3.11 installed
"$uv" pip install --quiet --python installed "$dist"/*.whl
export TRAINSHED_HOME=$empty
installed/bin/trainshed data sample digits --to .
installed/bin/trainshed validate "$sample"
echo "release-check: the chart renders $(grep -c '^kind:' install.yaml) objects, and the wheel accepts $(basename "$sample")"

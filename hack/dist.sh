#!/usr/bin/env bash
# Builds what a release consists of beside its images, into dist/ or the folder named first:
# the wheel, the source archive, the chart's archive, and SHA256SUMS of them.
# Run it by `make dist`. The chart is packed with KubeRay's chart in it, which Helm fetches.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=${1:-dist}
mkdir -p "$dist"
rm -f "$dist"/*.whl "$dist"/*.tar.gz "$dist"/*.tgz "$dist"/SHA256SUMS

"$(hack/find-uv.sh)" build --quiet --no-build-isolation --python .venv/bin/python --out-dir "$dist" .
rm -f "$dist/.gitignore"
helm=$(.venv/bin/python -c 'from hack.tools.finder import find; print(find("helm"))')
if ! compgen -G 'charts/trainshed/charts/*.tgz' >/dev/null && ! "$helm" dependency update charts/trainshed >/dev/null; then
    echo "dist: KubeRay's chart cannot be fetched: put its archive into charts/trainshed/charts (docs/install.md)" >&2
    exit 1
fi
"$helm" package charts/trainshed --destination "$dist" >/dev/null

cd "$dist"
sha256sum -- *.whl *.tar.gz *.tgz | tee SHA256SUMS

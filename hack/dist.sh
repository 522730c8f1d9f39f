#!/usr/bin/env bash
# Builds what a release consists of beside its images, into dist/: the wheel, the source archive, the
# chart's archive, and SHA256SUMS of them. Run it by `make dist`. The chart is packed with KubeRay's
# chart in it, which Helm fetches. One commit gives the same bytes twice. It needs no .venv: the tool that builds the wheel is locked, too.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf dist
mkdir dist
uv=$(hack/find-uv.sh)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

"$uv" build --quiet --python 3.11 --build-constraints requirements/dev.txt --require-hashes --out-dir dist .
rm -f dist/.gitignore
helm=$("$uv" run --quiet --no-project --python 3.11 python -m hack.tools helm)
if ! compgen -G 'charts/trainshed/charts/*.tgz' >/dev/null && ! "$helm" dependency update charts/trainshed >/dev/null; then
    echo "dist: KubeRay's chart cannot be fetched: put its archive into charts/trainshed/charts (docs/install.md)" >&2
    exit 1
fi
"$helm" package charts/trainshed --destination dist >/dev/null
hack/repack.sh dist/*.tar.gz dist/*.tgz

cd dist
sha256sum -- *.whl *.tar.gz *.tgz | tee SHA256SUMS

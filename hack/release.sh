#!/usr/bin/env bash
# Builds a release into dist/: what `make dist` builds, an SBOM (CycloneDX) of the Python packages of
# each image, SHA256SUMS of all, and provenance.json: the commit that they were built from, and by whom
# (BUILDER, an address). Run it by `make release`; .github/workflows/release.yml does.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(hack/find-uv.sh)
commit=$(git rev-parse HEAD)
if [ -n "$(git status --porcelain)" ]; then
    echo "release: got changes that are in no commit; expected a clean tree, whose commit provenance names. Commit them" >&2
    exit 1
fi

hack/dist.sh >/dev/null
# A lock has no graph of dependencies, of which the library warns.
export PYTHONWARNINGS=ignore
for lock in app/requirements app/cpu app/xgboost app/tensorflow controller/requirements; do
    # The lock of the CPU image exists where hack/lock-cpu.sh has written it.
    [ -f "images/$lock.txt" ] || continue
    "$uv" run --quiet --isolated --no-project --python 3.11 --with-requirements requirements/release.txt \
        cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml \
        --output-file "dist/sbom-${lock//\//-}.cdx.json" "images/$lock.txt"
done
rm dist/SHA256SUMS
checksums=$(cd dist && sha256sum -- *)
tee dist/SHA256SUMS <<<"$checksums"
"$uv" run --quiet --no-project --python 3.11 python -m hack.provenance --commit "$commit" \
    --builder "${BUILDER:-https://github.com/trainshed/trainshed/blob/$commit/Makefile}" \
    <dist/SHA256SUMS >dist/provenance.json

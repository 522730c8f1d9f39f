#!/usr/bin/env bash
# Publishes dist/ and the images that .github/workflows/release.yml has pushed for each platform: joins the
# platforms, signs images, chart and checksums as the workflow (cosign, keyless), and sends the chart to
# the registry, the wheel to its index (trusted publishing) and all files to the release on GitHub.
set -euo pipefail
cd "$(dirname "$0")/.."
registry=ghcr.io/trainshed
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

for image in "app:$version" "app:$version-xgboost" "app:$version-tensorflow" "controller:$version"; do
    docker buildx imagetools create --tag "$registry/$image" "$registry/$image-amd64" "$registry/$image-arm64"
    digest=$(docker buildx imagetools inspect "$registry/$image" --format '{{.Manifest.Digest}}')
    cosign sign --yes --recursive "$registry/${image%%:*}@$digest"
done

helm push "dist/trainshed-$version.tgz" "oci://$registry/charts" 2>&1 | tee pushed
cosign sign --yes "$registry/charts/trainshed@$(sed -n 's/^Digest: //p' pushed)"

for file in SHA256SUMS provenance.json; do
    cosign sign-blob --yes --bundle "dist/$file.sigstore.json" "dist/$file"
done
"$(hack/find-uv.sh)" publish --trusted-publishing always dist/*.whl dist/*.tar.gz
gh release create "v$version" --verify-tag --notes "CHANGELOG.md says what changed, UPGRADE.md how to verify these files." dist/*

#!/usr/bin/env bash
# Publishes dist/ and the images that .github/workflows/release.yml has pushed for each platform, whose
# digests are in digests/: joins the platforms, signs images, chart and checksums as the workflow (cosign,
# keyless), and sends the chart to the registry, all files to the release on GitHub and the wheel to its
# index (trusted publishing). It can run again after a failure, with the same dist/ and digests/.
set -euo pipefail
cd "$(dirname "$0")/.."
registry=ghcr.io/trainshed
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

for image in "app:$version" "app:$version-cpu" "app:$version-xgboost" "app:$version-tensorflow" "controller:$version"; do
    name=${image%%:*}
    pushed=digests/${image/:$version/}
    docker buildx imagetools create --tag "$registry/$image" \
        "$registry/$name@$(<"$pushed-amd64")" "$registry/$name@$(<"$pushed-arm64")"
    digest=$(docker buildx imagetools inspect "$registry/$image" --format '{{.Manifest.Digest}}')
    cosign sign --yes --recursive "$registry/$name@$digest"
done

helm push "dist/trainshed-$version.tgz" "oci://$registry/charts" 2>&1 | tee pushed
cosign sign --yes "$registry/charts/trainshed@$(sed -n 's/^Digest: //p' pushed)"

for file in SHA256SUMS provenance.json; do
    cosign sign-blob --yes --bundle "dist/$file.sigstore.json" "dist/$file"
done
notes="CHANGELOG.md says what changed, UPGRADE.md how to verify these files."
gh release view "v$version" >/dev/null 2>&1 || gh release create "v$version" --verify-tag --notes "$notes" dist/*
# Last, for the index takes no file twice: files that are below PACKAGE_INDEX already are skipped.
"$(hack/find-uv.sh)" publish --trusted-publishing always ${PACKAGE_INDEX:+--check-url "$PACKAGE_INDEX"} \
    dist/*.whl dist/*.tar.gz

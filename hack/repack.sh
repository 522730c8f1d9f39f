#!/usr/bin/env bash
# Writes .tar.gz and .tgz archives again with fixed order, times, owners and modes: the same files give the
# same bytes. Takes the archives; SOURCE_DATE_EPOCH is the time, in seconds since 1970.
set -euo pipefail
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT

for archive; do
    mkdir "$unpacked/files"
    tar --extract --gzip --file "$archive" --directory "$unpacked/files"
    # Helm wants names without a ./ before them.
    (cd "$unpacked/files" && tar --create --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX -- *) | gzip --no-name --best >"$archive"
    rm -r "$unpacked/files"
done

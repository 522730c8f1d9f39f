#!/usr/bin/env bash
# Without a name: lists the benchmarks by the first line of what they say about
# themselves. With one: runs it. Each is a program of benchmarks/ that stands alone.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
    exec .venv/bin/python -m "benchmarks.$1" "${@:2}"
fi
for file in benchmarks/*.py; do
    [ -e "$file" ] || { echo "no benchmarks yet"; exit; }
    grep -q __main__ "$file" || continue
    printf '  %-14s %s\n' "$(basename "$file" .py)" "$(sed -n '1s/^"""\([^"]*\).*/\1/p' "$file")"
done

#!/usr/bin/env bash
# Without a name: lists the benchmarks with the first line of their docstring. With one: runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -gt 0 ]; then
    exec .venv/bin/python -m benchmarks "$@"
fi
for file in benchmarks/*.py; do
    [ -e "$file" ] || { echo "no benchmarks yet"; exit; }
    grep -q "^def main" "$file" || continue
    printf '  %-14s %s\n' "$(basename "$file" .py)" "$(sed -n '1s/^"""\([^"]*\).*/\1/p' "$file")"
done

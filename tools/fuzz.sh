#!/usr/bin/env bash
# Every fuzz target for some seconds: tools/fuzz.sh [seconds]. A failing input is written to testdata/fuzz of its package; commit
# it, and every later run of the tests starts with it.
set -euo pipefail
cd "$(dirname "$0")/.."
SECONDS_EACH=${1:-5}
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$file" | while read -r _ name; do
    echo "-- $(dirname "$file") $name"
    go test -run '^$' -fuzz "^$name\$" -fuzztime "${SECONDS_EACH}s" -parallel 2 "$(dirname "$file")"
  done
done

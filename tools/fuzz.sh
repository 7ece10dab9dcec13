#!/usr/bin/env bash
# Every fuzz target for some seconds: tools/fuzz.sh [seconds]. A failing input is written to testdata/fuzz of its package, beside
# the small corpus that is kept there; commit it, and every later run of the tests starts with it.
set -euo pipefail
cd "$(dirname "$0")/.."
SECONDS_EACH=${1:-5}
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$file" | while read -r _ name; do
    echo "-- $(dirname "$file") $name"
    # Without the bound, making one new input smaller may take all the seconds there are.
    go test -run '^$' -fuzz "^$name\$" -fuzztime "${SECONDS_EACH}s" -fuzzminimizetime 50x -parallel 2 "$(dirname "$file")"
  done
done

#!/usr/bin/env bash
# All checks of one tier: tools/test.sh short|full|certify. What fails first ends the run; the last lines are the test
# runner's own summary.
set -euo pipefail

cd "$(dirname "$0")/.."
D=$PWD/.services # lib.sh's owner of ports; none are reserved here
# shellcheck source-path=SCRIPTDIR source=services/lib.sh
. tools/services/lib.sh

TIER=${1:-short}
case $TIER in
short) TIMEOUT=25m ;;
full | certify) TIMEOUT=4h ;;
*) echo "usage: tools/test.sh short|full|certify" >&2; exit 2 ;;
esac
export TEST_TIER=$TIER

say() { echo "== $*"; }

command -v go >/dev/null || { echo "test.sh needs Go 1.26 or newer: https://go.dev/dl" >&2; exit 3; }
need gcc gcc libc6-dev # go test -race

say "formatting, vet, generated code"
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "not formatted, run gofmt -w on: $unformatted" >&2; exit 1; }
go vet ./...
tools/sqlc.sh diff || { echo "generated code is stale: run make generate" >&2; exit 1; }

say "modules of their own"
for module in tools/containers experimental; do
  [ ! -f "$module/go.mod" ] || { go -C "$module" build ./... && go -C "$module" vet ./... && go -C "$module" test ./...; }
done

say "fuzz targets, some seconds each"
tools/fuzz.sh "$([ "$TIER" = short ] && echo 3 || echo 60)"

say "tests of the $TIER tier, on real servers"
# Two packages at a time suit two cores; within a package many tests wait for servers rather than compute.
run() { # run SERVER... -- PACKAGE...
  local servers=()
  while [ "$1" != -- ]; do servers+=("$1"); shift; done
  shift
  tools/services/with.sh "${servers[@]}" -- go tool -modfile=tools/go.mod gotestsum --format pkgname-and-test-fails \
    --hide-summary skipped -- -race -timeout "$TIMEOUT" -p 2 -parallel 8 "$@"
}
run -- ./...
[ "$TIER" != short ] || exit 0

# A test has one version of PostgreSQL, unless it asks for all. Outside the short tier every test runs on every version.
for major in 16 17 18; do
  say "tests of the database, on PostgreSQL $major alone"
  TEST_TIER=short TEST_POSTGRES=$major run pg16 pg17 pg18 kafka rabbitmq -- -count=1 \
    ./client/... ./cmd/... ./internal/acceptance ./internal/inbox ./internal/outbox ./internal/relay
done

say "tests of the database, on an outbox of ranges"
# Two tests set storage parameters, which a partitioned table has none of.
TEST_TIER=short TEST_PARTITIONED=1 run pg16 pg17 pg18 kafka rabbitmq -- -count=1 -skip '^(TestStorage|TestDiagnoseFindsWhatIsWrong)$' \
  ./client/... ./internal/acceptance ./internal/outbox ./internal/relay

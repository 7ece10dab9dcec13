#!/usr/bin/env bash
# Tortures a fleet of four relays on servers of its own, or on those whose addresses are set:
#
#   torture.sh [SEED [MINUTES [REPORT [FLAGS...]]]]     a seed drawn now, 5 minutes, no file
#
# The schedule and its seed are printed first, the report last. The same seed breaks the same things in the same order.
# PostgreSQL is always one of the run's own, because it is killed too, unless the run is of a minute or less.
set -euo pipefail
cd "$(dirname "$0")/.."

SEED=${1:-}
MINUTES=${2:-}
REPORT=${3:-}
shift "$(($# < 3 ? $# : 3))"
flags=(-seed "${SEED:-$RANDOM$RANDOM}" -minutes "${MINUTES:-5}")
[ -z "$REPORT" ] || flags+=(-report "$(realpath -m "$REPORT")")
exec tools/services/with.sh pg17 kafka rabbitmq -- \
  go test ./internal/torture -count=1 -v -timeout 24h -run '^TestTorture$' "${flags[@]}" "$@"

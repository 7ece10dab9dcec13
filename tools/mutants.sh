#!/usr/bin/env bash
# Builds relays from which one safeguard was taken, by the patches in internal/torture/mutants, and lets each be
# tortured until the checker has found it: mutants.sh [NAME]. The sources stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

export TEST_TIER=full
exec tools/services/with.sh pg17 kafka rabbitmq -- \
  go test ./internal/torture -count=1 -v -timeout 4h -run "^TestMutants$" -mutant "${1:-}"

#!/usr/bin/env bash
# sqlc in its pinned version, built without C: with C its SQL parser alone takes minutes to compile.
set -euo pipefail
cd "$(dirname "$0")/.."
CGO_ENABLED=0 exec go tool -modfile=tools/go.mod sqlc "$@"

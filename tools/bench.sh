#!/usr/bin/env bash
# Measures on servers of its own. PostgreSQL writes through to the disk here, as in production and unlike in the tests, and
# logs no more than a server without logical replication does, but for one cell: wal_level=logical logs every changed row in
# full. Everything runs on PostgreSQL 17; 16 and 18 repeat the floor, the drain and the writers. BENCH=full makes the large
# tables as large as the goals say and repeats everything on each version. Arguments go to relay bench: with any, only
# PostgreSQL 17 is measured.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --measure ]; then
  export PG_FSYNC=${PG_FSYNC:-on}
  conf=${PG_CONF:-shared_buffers=1GB max_wal_size=8GB}
  names=(pg17 kafka rabbitmq)
  [ $# -gt 0 ] || names+=(pg16 pg18)
  PG_CONF="wal_level=replica $conf" tools/services/with.sh "${names[@]}" -- "$0" --measure "$@"
  [ $# -gt 0 ] || PG_CONF="wal_level=logical $conf" tools/services/with.sh pg17 -- "$0" --measure --only floor,drain
  exit
fi
shift
servers=()
[ -z "${KAFKA_BOOTSTRAP:-}" ] || servers+=(--kafka "$KAFKA_BOOTSTRAP")
[ -z "${RABBITMQ_URL_1:-}" ] || servers+=(--rabbitmq "$RABBITMQ_URL_1" --rabbitmq-api "$RABBITMQ_API_1")
rest=(--only 'floor,drain,insert')
if [ "${BENCH:-}" = full ]; then
  servers+=(--full)
  rest=()
fi
mkdir -p bin
go build -trimpath -o bin/relay ./cmd/relay
date -u
RELAY_DATABASE_URL=$PG_URL_17 bin/relay bench "${servers[@]}" "$@"
[ -z "${PG_URL_16:-}" ] || RELAY_DATABASE_URL=$PG_URL_16 bin/relay bench "${servers[@]}" "${rest[@]}"
[ -z "${PG_URL_18:-}" ] || RELAY_DATABASE_URL=$PG_URL_18 bin/relay bench "${servers[@]}" "${rest[@]}"

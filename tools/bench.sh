#!/usr/bin/env bash
# Measures on servers of its own, or on those whose addresses are set. PostgreSQL writes through to the disk here, as in
# production and unlike in the tests, and logs no more than a server without logical replication does: wal_level=logical
# would log every changed row in full. Arguments go to relay bench.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --measure ]; then
  export PG_FSYNC=${PG_FSYNC:-on} PG_CONF=${PG_CONF:-wal_level=replica shared_buffers=1GB max_wal_size=8GB}
  exec tools/services/with.sh pg17 kafka rabbitmq -- "$0" --measure "$@"
fi
shift
servers=(--kafka "$KAFKA_BOOTSTRAP")
[ -z "${RABBITMQ_URL_1:-}" ] || servers+=(--rabbitmq "$RABBITMQ_URL_1" --rabbitmq-api "$RABBITMQ_API_1")
mkdir -p bin
go build -trimpath -o bin/relay ./cmd/relay
RELAY_DATABASE_URL=$PG_URL_17 bin/relay bench "${servers[@]}" "$@"

#!/usr/bin/env bash
# Runs a command with servers of its own, which end with it, however it ends:
#
#   with.sh [NAME...] -- COMMAND...     NAMEs as for up.sh; TEST_SERVICES decides where servers come from
#
# The command finds the addresses in its environment. Its exit code is this script's.
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
STATE=${SERVICES_DIR:-$(cd "$HERE/../.." && pwd)/.services}

names=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  names+=("$1")
  shift
done
if [ "${1:-}" != -- ] || [ $# -lt 2 ]; then
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
shift

end() { SERVICES_DIR=$1 "$HERE/up.sh" destroy >&2 && rm -rf "$1"; }

# What a run that was killed itself has left behind.
for left in "$STATE"/run.*; do
  [ ! -d "$left" ] || [ -d "/proc/${left##*/run.}" ] || end "$left" || true
done

export SERVICES_DIR=$STATE/run.$$
trap 'end "$SERVICES_DIR"' EXIT
trap 'exit 130' INT TERM
lines=$(umask 077 && "$HERE/up.sh" start "${names[@]}")
set -a
eval "$lines"
set +a
"$@"

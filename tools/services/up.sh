#!/usr/bin/env bash
# Starts the servers that the tests need and prints where they are, as VAR='value' lines:
#
#   set -a; eval "$(tools/services/up.sh)"; set +a
#
#   up.sh [start] [NAME...]     NAMEs: pg16 pg17 pg18 kafka kafka42 kafka3 rabbitmq rabbitmq3; without one: pg17 pg16
#                               pg18 kafka kafka42 rabbitmq. A name ending in 3 is a cluster of three nodes.
#   up.sh env | status          of what up.sh has started here
#   up.sh stop | destroy        ends what up.sh has started here; destroy forgets its data too
#   up.sh ctl NAME VERB...      one server's own script: kill N, pause N, resume N, start-node N, ctl ...
#
# TEST_SERVICES says where servers come from:
#   auto    (default) a server whose address is already set is taken as it is; else docker, if it answers; else local.
#           With REQUIRE_SERVICES=1 docker is left out: the containers offer neither TLS nor access rights
#   env     only the addresses that are set; nothing is started
#   docker  containers, by the command in tools/containers
#   local   the scripts beside this one: no daemon, no image, loopback only
#
# SERVICES_DIR (.services in the checkout) keeps state and data, SERVICES_CACHE ($HOME/.cache/relay-services) downloads.
# A server that cannot be had is named, and the rest starts; with REQUIRE_SERVICES=1 that is a failure instead.
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
CHECKOUT=$(cd "$HERE/../.." && pwd)
D=${SERVICES_DIR:-$CHECKOUT/.services}
mkdir -p "$D"
D=$(cd "$D" && pwd)
MODE=${TEST_SERVICES:-auto}
ALL="pg17 pg16 pg18 kafka kafka42 rabbitmq"

address() { # the variable that tells whether NAME is given
  case $1 in
  pg16 | pg17 | pg18) echo "PG_URL_${1#pg}" ;;
  kafka) echo KAFKA_BOOTSTRAP ;;
  kafka42) echo KAFKA42_BOOTSTRAP ;;
  kafka3) echo KAFKA3_BOOTSTRAP ;;
  rabbitmq) echo RABBITMQ_URL_1 ;;
  rabbitmq3) echo RABBITMQ3_URL_1 ;;
  *) echo "up.sh: no service is called $1" >&2; return 2 ;;
  esac
}

script() { # script NAME VERB...: runs the service's own script
  local name=$1
  shift
  case $name in
  pg*) DATA_DIR=$D/$name PG_MAJOR=${name#pg} "$HERE/postgres.sh" "$@" ;;
  kafka) DATA_DIR=$D/$name "$HERE/kafka.sh" "$@" ;;
  kafka42) DATA_DIR=$D/$name KAFKA_VERSION=4.2.2 KAFKA_NAME=KAFKA42 "$HERE/kafka.sh" "$@" ;;
  kafka3) DATA_DIR=$D/$name KAFKA_NODES=3 KAFKA_NAME=KAFKA3 "$HERE/kafka.sh" "$@" ;;
  rabbitmq) DATA_DIR=$D/$name "$HERE/rabbitmq.sh" "$@" ;;
  rabbitmq3) DATA_DIR=$D/$name RMQ_NODES=3 RMQ_NAME=RABBITMQ3 "$HERE/rabbitmq.sh" "$@" ;;
  esac
}

docker_answers() {
  [ -f "$CHECKOUT/tools/containers/go.mod" ] && command -v docker >/dev/null && timeout 5 docker info >/dev/null 2>&1
}
containers() { (cd "$CHECKOUT" && SERVICES_DIR=$D go -C tools/containers run . "$@"); }

start_local() { # start_local NAME...: all at once
  local name failed=0
  for name in "$@"; do
    mkdir -p "$D/$name"
    (script "$name" start >"$D/$name/env.new" 2>"$D/$name/start.log" && mv "$D/$name/env.new" "$D/$name/env") &
  done
  wait
  for name in "$@"; do
    if [ -f "$D/$name/env" ] && ! [ -f "$D/$name/env.new" ]; then
      cat "$D/$name/env"
    else
      rm -f "$D/$name/env.new" "$D/$name/env"
      echo "up.sh: $name is not available:" >&2
      tail -n 5 "$D/$name/start.log" >&2
      failed=1
    fi
  done
  return $failed
}

start() {
  local name variable wanted=() failed=0
  # shellcheck disable=SC2086 # several names
  [ $# -gt 0 ] || set -- $ALL
  for name in "$@"; do
    variable=$(address "$name")
    if [ "$MODE" != docker ] && [ "$MODE" != local ] && [ -n "${!variable:-}" ]; then
      echo "# $name: $variable is given"
    elif [ "$MODE" = env ]; then
      echo "up.sh: $name is not available: TEST_SERVICES=env and $variable is not set" >&2
      failed=1
    else
      wanted+=("$name")
    fi
  done
  if [ ${#wanted[@]} -gt 0 ]; then
    if [ "$MODE" = docker ] || { [ "$MODE" = auto ] && [ "${REQUIRE_SERVICES:-}" != 1 ] && docker_answers; }; then
      touch "$D/containers"
      containers start "${wanted[@]}" || failed=1
    else
      start_local "${wanted[@]}" || failed=1
    fi
  fi
  [ $failed = 0 ] || [ "${REQUIRE_SERVICES:-}" != 1 ]
}

local_names() { for f in "$D"/*/start.log; do [ ! -f "$f" ] || basename "$(dirname "$f")"; done; }
each() { # each VERB: on every server started here
  local name
  for name in $(local_names); do script "$name" "$1" & done
  wait
}
end_containers() { [ ! -f "$D/containers" ] || { containers stop && rm -f "$D/containers"; }; }

case $MODE in auto | env | docker | local) ;; *) echo "up.sh: TEST_SERVICES is auto, env, docker or local" >&2; exit 2 ;; esac
verb=${1:-start}
case $verb in
start) [ $# = 0 ] || shift; start "$@" ;;
env) for name in $(local_names); do [ ! -f "$D/$name/env" ] || cat "$D/$name/env"; done ;;
status) each status ;;
stop) each stop; end_containers ;;
destroy)
  each destroy
  end_containers
  for name in $(local_names); do rm -rf "${D:?}/$name"; done
  ;;
ctl) shift; name=$1; shift; address "$name" >/dev/null; script "$name" "$@" ;;
pg* | kafka* | rabbitmq*) start "$@" ;;
*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

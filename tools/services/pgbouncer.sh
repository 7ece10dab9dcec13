#!/usr/bin/env bash
# PgBouncer in front of a PostgreSQL, in transaction mode, from the Debian package. Whoever connects becomes the user of
# PGB_TARGET, whatever user and password it gives.
#
#   DATA_DIR=/some/dir PGB_TARGET=postgres://user:password@127.0.0.1:5432/any [PGB_POOL=2] pgbouncer.sh start
#   DATA_DIR=... pgbouncer.sh env | status | stop | destroy
#
# PgBouncer refuses to run as root: as root it reads its file and goes on as nobody.
set -euo pipefail

: "${DATA_DIR:?set DATA_DIR to the folder that keeps the data}"
D=$DATA_DIR/pgbouncer
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin

print_env() { echo "PGBOUNCER_ADDR='127.0.0.1:$(cat "$D/port")'"; }

configure() { # PGB_TARGET is scheme://user:password@host:port/…
  local rest credentials address port=$1
  rest=${PGB_TARGET#*://}
  credentials=${rest%%@*}
  address=${rest#*@}
  address=${address%%[/?]*}
  umask 077
  cat >"$D/pgbouncer.ini" <<EOF
[databases]
* = host=${address%:*} port=${address##*:} user=${credentials%%:*} password=${credentials#*:}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${PGB_POOL:-2}
max_client_conn = 200
EOF
}

start() {
  local port end as=()
  if alive "$D/pid"; then print_env; return 0; fi
  : "${PGB_TARGET:?set PGB_TARGET to the address of the server behind}"
  need pgbouncer pgbouncer
  mkdir -p "$D"
  port=$(reserve_ports 1)
  echo "$port" >"$D/port"
  configure "$port"
  [ "$(id -u)" != 0 ] || as=(-u nobody)
  background "$D/pid" "$D/pgbouncer.log" exec_it "${as[@]}"
  end=$((SECONDS + 30))
  until listening "$port"; do
    if ! alive "$D/pid" || [ $SECONDS -ge $end ]; then tail -n 20 "$D/pgbouncer.log" >&2; exit 1; fi
    sleep 0.05
  done
  print_env
}
exec_it() { exec pgbouncer -q "$@" "$D/pgbouncer.ini"; }

stop() { end "$D/pid" INT 5; }

case ${1:-} in
start | start-node) start ;;
env) print_env ;;
status) if p=$(pid_of "$D/pid"); then echo "PgBouncer runs, pid $p"; else echo "PgBouncer is stopped"; fi ;;
stop) stop ;;
destroy) stop; release_ports; rm -rf "$D" ;;
*) usage ;;
esac

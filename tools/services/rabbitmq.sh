#!/usr/bin/env bash
# RabbitMQ 4.3.x (a Debian package) in a chroot of its own on any Debian host, 1 or 3 nodes, loopback only. Nothing of
# the host is changed except: the package mmdebstrap, the cache folder, DATA_DIR. Needs root (chroot, private mounts).
#
#   DATA_DIR=/some/dir rabbitmq.sh install            build the root (once ~40 s, ~190 MB)
#   DATA_DIR=... [RMQ_NODES=3] [RMQ_PORT=0] [RMQ_CONF='a=b c=d'] rabbitmq.sh start     port 0: a free range
#   DATA_DIR=... rabbitmq.sh env                      print the addresses as VAR='value' lines
#   DATA_DIR=... rabbitmq.sh ctl N ARGS...            rabbitmqctl against node N
#   DATA_DIR=... rabbitmq.sh kill N | pause N | resume N | start-node N
#   DATA_DIR=... rabbitmq.sh status | stop | destroy
#
# Ports, from the base RMQ_PORT (P): node i (1..3) has amqp P+10(i-1), amqps +1, HTTP API +2, Erlang distribution +3;
# epmd is P+9. RMQ_CONF is added to every rabbitmq.conf, RMQ_NAME is the word that the printed variables begin with
# (RABBITMQ). A first start fixes all settings until destroy.
set -euo pipefail

: "${DATA_DIR:?set DATA_DIR to the folder that keeps the data}"
D=$DATA_DIR/rabbitmq
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
ROOT=${RMQ_ROOT:-$CACHE/rabbitmq-forky}
SUITE=${RMQ_SUITE:-forky}
MIN_VERSION=4.3
RUN_AS=65534:65534 # nobody, the same number inside and outside the root
START_TIMEOUT=${RMQ_START_TIMEOUT:-120}

# The settings of a started cluster are kept, so that later verbs need only DATA_DIR.
# shellcheck source=/dev/null
[ -f "$D/settings" ] && . "$D/settings"
P=${RMQ_PORT:-0}
N=${RMQ_NODES:-1}
CONF=${RMQ_CONF:-}
USER_=${RMQ_USER:-relay}
PASS=${RMQ_PASS:-relay}
NAME=${RMQ_NAME:-RABBITMQ}

amqp() { echo $((P + 10 * ($1 - 1))); }
amqps() { echo $((P + 10 * ($1 - 1) + 1)); }
api() { echo $((P + 10 * ($1 - 1) + 2)); }
dist() { echo $((P + 10 * ($1 - 1) + 3)); }
epmd() { echo $((P + 9)); }

own_mirror() { # the mirror that this machine's own apt uses (deb822 or one-line sources)
  { cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true; } |
    sed -nE 's/^URIs:[[:space:]]*([^[:space:]]*\/debian\/?)([[:space:]].*)?$/\1/p; s/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]*\/debian\/?)[[:space:]].*/\2/p' | head -n 1
}
MIRROR=${DEBIAN_MIRROR:-$(own_mirror)}

install() {
  if [ "$(id -u)" != 0 ]; then
    echo "rabbitmq.sh needs root (chroot, private mounts): run it by sudo, or give RABBITMQ_URL_1 and RABBITMQ_API_1" >&2
    exit 3
  fi
  need curl curl
  need openssl openssl
  [ -x "$ROOT/usr/sbin/rabbitmqctl" ] && return 0
  need mmdebstrap mmdebstrap
  with_lock rabbitmq fetch
}
fetch() {
  local v new=$ROOT.new
  [ -x "$ROOT/usr/sbin/rabbitmqctl" ] && return 0
  rm -rf "$new"
  # Check-Valid-Until: a mirror's copy of a testing suite may be some weeks old, and then apt refuses it; the
  # signature of the suite is checked all the same, and by it every package.
  mmdebstrap --quiet --variant=apt --include=rabbitmq-server \
    --aptopt='APT::Install-Recommends "false"' \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt=force-unsafe-io \
    "$SUITE" "$new" "$MIRROR" >&2
  # The suite moves on, so a least version is asked for instead of one.
  # shellcheck disable=SC2016 # dpkg-query's own variable
  v=$(chroot "$new" dpkg-query -W -f '${Version}' rabbitmq-server)
  dpkg --compare-versions "$v" ge "$MIN_VERSION" || { echo "rabbitmq-server $v < $MIN_VERSION" >&2; exit 1; }
  find "$new/usr/share/doc" -type f ! -name copyright -delete
  rm -rf "$new/usr/share/man" "$new/usr/share/locale"
  echo '127.0.0.1 localhost' >"$new/etc/hosts"
  mkdir -p "$new/srv/rabbitmq"
  mv "$new" "$ROOT"
}

# in_root COMMAND...: run it in the root, as RUN_AS, with $D at /srv/rabbitmq, in a private mount namespace: no mount
# is left on the host when the command ends. exec keeps one pid.
in_root() {
  # shellcheck disable=SC2016 # the inner shell's parameters
  exec setsid unshare --mount --propagation private sh -c '
    mount --bind "$2" "$1/srv/rabbitmq" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" || exit 1
    root=$1 as=$3; shift 3
    exec chroot --userspec="$as" "$root" /usr/bin/env -i "$@"' \
    sh "$ROOT" "$D" "$RUN_AS" \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv/rabbitmq LANG=C.UTF-8 \
    "ERL_EPMD_PORT=$(epmd)" ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_CONF_ENV_FILE=/dev/null "$@"
}

configure() {
  local i j
  mkdir -p "$D"
  chmod 755 "$D"
  [ "$P" != 0 ] || P=$(reserve_ports "$N")
  certificates "$D/tls" "$USER_"
  [ -f "$D/.erlang.cookie" ] || head -c 18 /dev/urandom | base64 | tr -dc A-Za-z0-9 >"$D/.erlang.cookie"
  echo '[rabbitmq_management,rabbitmq_auth_mechanism_ssl].' >"$D/enabled_plugins"
  for i in $(seq "$N"); do
    mkdir -p "$D/n$i/db" "$D/n$i/log"
    {
      cat <<CONF
listeners.tcp.1 = 127.0.0.1:$(amqp "$i")
listeners.ssl.1 = 127.0.0.1:$(amqps "$i")
ssl_options.cacertfile = /srv/rabbitmq/tls/ca.pem
ssl_options.certfile = /srv/rabbitmq/tls/server.pem
ssl_options.keyfile = /srv/rabbitmq/tls/server.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
ssl_cert_login_from = common_name
management.tcp.ip = 127.0.0.1
management.tcp.port = $(api "$i")
default_user = $USER_
default_pass = $PASS
default_vhost = /
disk_free_limit.absolute = 50MB
log.file.level = info
CONF
      if [ "$N" -gt 1 ]; then
        echo 'cluster_formation.peer_discovery_backend = classic_config'
        for j in $(seq "$N"); do echo "cluster_formation.classic_config.nodes.$j = rabbit$j@localhost"; done
        echo "cluster_formation.target_cluster_size_hint = $N"
      fi
      tr -s ' ' '\n' <<<"$CONF" | sed 's/=/ = /'
    } >"$D/n$i/rabbitmq.conf"
  done
  chown -R "$RUN_AS" "$D"
  chmod 400 "$D/.erlang.cookie"
  printf 'RMQ_PORT=%q\nRMQ_NODES=%q\nRMQ_USER=%q\nRMQ_PASS=%q\nRMQ_CONF=%q\nRMQ_NAME=%q\nROOT=%q\n' \
    "$P" "$N" "$USER_" "$PASS" "$CONF" "$NAME" "$ROOT" >"$D/settings"
}

start_epmd() {
  alive "$D/epmd.pid" || background "$D/epmd.pid" "$D/epmd.log" in_root /usr/bin/epmd -port "$(epmd)" -address 127.0.0.1
}

start_node() {
  local i=$1
  alive "$D/n$i/pid" && return 0
  # RUNNING_UNDER_SYSTEMD: exec the VM in place, so the pid kept here is the VM's own.
  background "$D/n$i/pid" "$D/n$i/out.log" in_root RUNNING_UNDER_SYSTEMD=true RABBITMQ_NODENAME="rabbit$i@localhost" \
    RABBITMQ_DIST_PORT="$(dist "$i")" RABBITMQ_CONFIG_FILE="/srv/rabbitmq/n$i/rabbitmq.conf" \
    RABBITMQ_MNESIA_BASE="/srv/rabbitmq/n$i/db" RABBITMQ_LOG_BASE="/srv/rabbitmq/n$i/log" \
    RABBITMQ_ENABLED_PLUGINS_FILE=/srv/rabbitmq/enabled_plugins \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
    /usr/lib/rabbitmq/bin/rabbitmq-server
}

wait_node() {
  local i=$1 end=$((SECONDS + START_TIMEOUT))
  until listening "$(amqp "$i")" && listening "$(amqps "$i")" && listening "$(api "$i")"; do
    if ! alive "$D/n$i/pid" || [ $SECONDS -ge $end ]; then
      echo "rabbit$i did not start; last lines of its output:" >&2
      tail -n 20 "$D/n$i/out.log" >&2
      exit 1
    fi
    sleep 0.1
  done
}

wait_cluster() { # until the HTTP API of node 1 says that all nodes run
  local end=$((SECONDS + START_TIMEOUT)) n
  while :; do
    n=$(curl -fsS -m 5 -u "$USER_:$PASS" "http://127.0.0.1:$(api 1)/api/nodes?columns=name,running" 2>/dev/null |
      grep -o '"running":true' | wc -l || true)
    [ "$n" -ge "$N" ] && return 0
    [ $SECONDS -ge $end ] && { echo "only $n of $N nodes run" >&2; exit 1; }
    sleep 0.2
  done
}

print_env() {
  local i
  for i in $(seq "$N"); do
    echo "${NAME}_URL_$i='amqp://$USER_:$PASS@127.0.0.1:$(amqp "$i")/'"
    echo "${NAME}_TLS_URL_$i='amqps://$USER_:$PASS@localhost:$(amqps "$i")/'"
    echo "${NAME}_API_$i='http://$USER_:$PASS@127.0.0.1:$(api "$i")'"
  done
  echo "${NAME}_CA='$D/tls/ca.pem'"
  echo "${NAME}_CLIENT_CERT='$D/tls/client.pem'"
  echo "${NAME}_CLIENT_KEY='$D/tls/client.key'"
}

start() {
  local i
  install
  configure
  start_epmd
  for i in $(seq "$N"); do start_node "$i"; done
  for i in $(seq "$N"); do wait_node "$i"; done
  wait_cluster
  print_env
}
stop() {
  local i
  for i in $(seq "$N"); do end "$D/n$i/pid" TERM 20 & done
  wait
  end "$D/epmd.pid" KILL 1
}
started() { [ -f "$D/settings" ] || { echo "rabbitmq.sh: nothing was started in $DATA_DIR" >&2; exit 1; }; }

cmd=${1:-}
shift || true
case $cmd in
install) install; chroot "$ROOT" dpkg-query -W rabbitmq-server erlang-base ;;
start) start ;;
start-node) started; start_epmd; start_node "$1"; wait_node "$1" ;;
kill) started; end "$D/n$1/pid" KILL 5 ;;
pause) started; signal STOP "$D/n$1/pid" ;;
resume) started; signal CONT "$D/n$1/pid" ;;
ctl)
  started
  i=$1
  shift
  in_root RABBITMQ_NODENAME="rabbit$i@localhost" /usr/lib/rabbitmq/bin/rabbitmqctl "$@"
  ;;
env) started; print_env ;;
status) for i in $(seq "$N"); do alive "$D/n$i/pid" && echo "rabbit$i runs" || echo "rabbit$i is stopped"; done ;;
stop) stop ;;
destroy) stop; release_ports; rm -rf "$D" ;;
*) usage ;;
esac

# shellcheck shell=bash
# What the service scripts share: the cache, prerequisites, certificates, ports and processes. Sourced, never run.
#
# A script that sources it has set D, the folder that keeps its data.

CACHE=${SERVICES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/relay-services}

# need COMMAND PACKAGE...: COMMAND exists, or root on Debian installs the packages, or one line says what to run. Code 3
# means: this cannot be had on this machine as it is.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "${0##*/}: installing $* (for $command)" >&2
    with_lock apt apt_install "$@" >&2 && return 0
  fi
  echo "${0##*/} needs $command; on Debian or Ubuntu: sudo apt-get install -y --no-install-recommends $*" >&2
  exit 3
}
apt_install() {
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# with_lock NAME COMMAND...: one process of this machine's user at a time.
with_lock() {
  local lock=$CACHE/.$1.lock
  shift
  mkdir -p "$CACHE"
  (
    flock 9
    "$@" 9>&-
  ) 9>"$lock"
}

# Ports come in blocks of ten below the range that the kernel hands out itself. A block is reserved by a file that
# names its owner's folder, so that servers started at the same moment do not choose the same one; a reservation
# whose folder is gone counts no more.
PORTS=$CACHE/ports
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
reserve_ports() { # reserve_ports BLOCKS: prints the first port of BLOCKS free blocks in a row
  mkdir -p "$PORTS"
  with_lock ports choose_ports "$1"
}
choose_ports() {
  local base p owner
  for _ in $(seq 200); do
    base=$((20000 + RANDOM % 1200 * 10))
    for p in $(seq "$base" 10 $((base + 10 * ($1 - 1)))); do
      if [ -f "$PORTS/$p" ]; then
        owner=$(<"$PORTS/$p")
        [ "$owner" != "$D" ] && [ -d "$owner" ] && continue 2
      fi
    done
    for p in $(seq "$base" $((base + 10 * $1 - 1))); do listening "$p" && continue 2; done
    for p in $(seq "$base" 10 $((base + 10 * ($1 - 1)))); do echo "$D" >"$PORTS/$p"; done
    echo "$base"
    return 0
  done
  echo "${0##*/}: no free range of ports between 20000 and 32000" >&2
  return 1
}
release_ports() {
  [ -d "$PORTS" ] || return 0
  { grep -lxF -- "$D" "$PORTS"/* 2>/dev/null || true; } | xargs -r rm -f
}

# A process is known by its id and its start time, so that a file left from before a reboot, or from long ago, never
# leads to somebody else's process. A zombie (killed, not yet reaped) answers kill -0, so its state is looked at.
stamp() { # the state and start time of process $1; nothing when it is gone
  local s
  s=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  # shellcheck disable=SC2086 # split on purpose; the name in parentheses may hold blanks
  set -- ${s##*) }
  case $1 in Z | X) ;; *) echo "${20}" ;; esac
}
running() { [ -n "$(stamp "$1")" ]; }
keep_pid() { echo "$1 $(stamp "$1")" >"$2"; }
pid_of() { # pid_of FILE: its process, if that still runs
  local p s
  [ -f "$1" ] && read -r p s <"$1" && [ -n "$s" ] && [ "$(stamp "$p")" = "$s" ] && echo "$p"
}
alive() { pid_of "$1" >/dev/null; }

# background PIDFILE LOG COMMAND...: starts COMMAND in a session of its own, holding none of the caller's files, and
# keeps its process id. COMMAND must exec, so that the id stays.
background() {
  local file=$1 log=$2
  shift 2
  (
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      [ "$fd" -le 2 ] || eval "exec $fd>&-"
    done
    exec </dev/null >>"$log" 2>&1
    "$@"
  ) &
  keep_pid $! "$file"
}

# end PIDFILE SIGNAL SECONDS: signals the process, waits for its end, and kills it when that takes too long.
end() {
  local p
  if p=$(pid_of "$1"); then
    kill "-$2" "$p" 2>/dev/null || true
    [ "$2" = KILL ] || kill -CONT "$p" 2>/dev/null || true
    gone "$3" "$p" || kill -KILL "$p" 2>/dev/null || true
    gone 10 "$p" || { echo "process $p does not end" >&2; return 1; }
  fi
  rm -f "$1"
}
gone() { # gone SECONDS PID...
  local until=$((SECONDS + $1)) p
  shift
  for p in "$@"; do
    while running "$p"; do
      [ $SECONDS -le $until ] || return 1
      sleep 0.05
    done
  done
}
# stand PID...: returns when every thread of them stands or is dead, which after a signal to stop takes a moment on a busy
# machine.
stand() {
  local end=$((SECONDS + 20)) p
  for p in "$@"; do
    # shellcheck disable=SC2143 # with -q the first grep may be cut off, which pipefail takes for a failure
    while [ -n "$(grep -hs '^State:' /proc/"$p"/task/*/status | grep -vE '[TZX] \(')" ]; do
      [ $SECONDS -lt $end ] || { echo "${0##*/}: process $p does not stop" >&2; exit 1; }
      sleep 0.01
    done
  done
}
signal() { # signal SIGNAL PIDFILE; after STOP it returns when the process stands
  local p
  p=$(pid_of "$2") || { echo "${0##*/}: it does not run" >&2; exit 1; }
  kill "-$1" "$p"
  [ "$1" != STOP ] || stand "$p"
}

# certificates DIR CLIENT: an authority, a certificate for localhost, and one whose common name is CLIENT.
certificates() {
  local t=$1 n cn
  [ -f "$t/client.pem" ] && return 0
  need openssl openssl
  mkdir -p "$t"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=test CA" \
    -keyout "$t/ca.key" -out "$t/ca.pem" 2>/dev/null
  for n in server client; do
    cn=localhost
    [ $n = server ] || cn=$2
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$cn" \
      -keyout "$t/$n.key" -out "$t/$n.csr" 2>/dev/null
    openssl x509 -req -in "$t/$n.csr" -CA "$t/ca.pem" -CAkey "$t/ca.key" -CAcreateserial -days 30 \
      -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1") -out "$t/$n.pem" 2>/dev/null
  done
}

# usage: the comment at the head of the script.
usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

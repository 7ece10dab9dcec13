#!/usr/bin/env bash
# Apache Kafka 4.x (KRaft) from Maven artifacts on loopback, 1 or 3 brokers, with TLS, mTLS, SASL and ACLs.
#
#   DATA_DIR=/some/dir [KAFKA_VERSION=4.3.1] kafka.sh install      (once ~20 s, ~100 MB; 4.2.2 too)
#   DATA_DIR=... [KAFKA_NODES=3] [KAFKA_PORT=0] kafka.sh start     port 0: a free range
#   DATA_DIR=... kafka.sh env                      print the addresses and users as VAR='value' lines
#   DATA_DIR=... kafka.sh ctl N TOOL ARGS...       topics, acls, configs, groups, consumer-groups, share-groups,
#                                                  features, metadata-quorum, transactions, or a class name
#   DATA_DIR=... kafka.sh kill N | pause N | resume N | start-node N
#   DATA_DIR=... kafka.sh status | stop | destroy
#
# One broker is its own controller. Three brokers (1..3) get a controller process of their own, node 0, so that two
# dead brokers still leave a quorum that shrinks the in-sync set. KAFKA_COMBINED=1: no node 0, all three are
# controllers too. Ports, from the base KAFKA_PORT (P): node i has plaintext P+10(i-1), TLS +1, TLS with a client
# certificate +2, SASL +3, SASL over TLS +4, controller +9 (node 0: P+9).
# KAFKA_CONF='key=value ...' is added to every server.properties, KAFKA_JVM_OPTS to the JVM's options, KAFKA_NAME is
# the word that the printed variables begin with (KAFKA). Topics are not created automatically; replication is 3 and
# min.insync.replicas 2 with three brokers. A first start fixes all settings until destroy.
set -euo pipefail

: "${DATA_DIR:?set DATA_DIR to the folder that keeps the data}"
D=$DATA_DIR/kafka
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
RUN_AS=65534
START_TIMEOUT=${KAFKA_START_TIMEOUT:-120}
STOP_TIMEOUT=${KAFKA_STOP_TIMEOUT:-20} # then SIGKILL

# The settings of a started cluster are kept, so that later verbs need only DATA_DIR.
# shellcheck source=/dev/null
[ -f "$D/settings" ] && . "$D/settings"
VERSION=${KAFKA_VERSION:-4.3.1}
P=${KAFKA_PORT:-0}
N=${KAFKA_NODES:-1}
COMBINED=${KAFKA_COMBINED:-$((N == 1))}
HEAP=${KAFKA_HEAP:-256m}
CONF=${KAFKA_CONF:-}
JVM_OPTS=${KAFKA_JVM_OPTS:-}
NAME=${KAFKA_NAME:-KAFKA}
PREFIX_ACL=${KAFKA_ACL_PREFIX:-relay.} # what the users producer and consumer may use
PASS=${KAFKA_PASS:-relay-secret}       # of admin (superuser), producer and consumer
PREFIX=$CACHE/kafka-$VERSION
JAVA=${KAFKA_JAVA:-java}

# As root, the JVMs run as nobody, and their two folders are bound under /mnt in a private mount namespace, so that
# their parents may have any mode. exec keeps one pid.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  HOME_=/mnt/kafka DATA=/mnt/data
else
  HOME_=$PREFIX DATA=$D
fi
as_server() {
  if [ "$DATA" = "$D" ]; then exec setsid "$@"; fi
  # shellcheck disable=SC2016 # the inner shell's parameters
  exec setsid unshare --mount --propagation private sh -c '
    mount -t tmpfs -o mode=755,size=64k tmpfs /mnt && mkdir /mnt/kafka /mnt/data &&
    mount --bind "$1" /mnt/kafka && mount --bind "$2" /mnt/data || exit 1
    as=$3; shift 3; cd /
    exec setpriv --reuid="$as" --regid="$as" --clear-groups env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"' \
    sh "$PREFIX" "$D" "$RUN_AS" "$@"
}

jvm() { # jvm JVM_OPTION... CLASS ARG...
  local cp
  cp=$(cd "$PREFIX/libs" && printf ":$HOME_/libs/%s" *.jar) # sorted: the class archive needs a fixed order
  as_server "$(readlink -f "$(command -v "$JAVA")")" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
    -Djava.io.tmpdir="$DATA/tmp" \
    -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS \
    -cp "${cp#:}" "$@"
}
# The classes of a started broker, parsed beforehand: half the start time, a fifth less memory. Another Java than the
# one that wrote it ignores it.
archive() { [ -f "$PREFIX/classes.jsa" ] && echo "-XX:SharedArchiveFile=$HOME_/classes.jsa" || echo -Xshare:auto; }

install() {
  need "$JAVA" default-jre-headless
  [ -d "$PREFIX" ] && return 0
  need mvn maven
  with_lock "kafka-$VERSION" fetch
}
fetch() {
  local t
  [ -d "$PREFIX" ] && return 0
  t=$(mktemp -d "$CACHE/.kafka.XXXXXX")
  # kafka-tools drags in Connect with a web server; none of the tools used here needs it.
  cat >"$t/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$VERSION</version>
      <exclusions>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-api</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-transforms</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
POM
  # -C: a download whose checksum differs is an error, not a warning.
  mvn -B -q -C -f "$t/pom.xml" -Dmaven.repo.local="$t/repo" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$t/new/libs" >"$t/mvn.log" 2>&1 || { cat "$t/mvn.log" >&2; exit 1; }
  [ -f "$t/new/libs/kafka_2.13-$VERSION.jar" ] || { echo "maven gave no kafka $VERSION" >&2; exit 1; }
  chmod -R a+rX "$t/new"
  mv "$t/new" "$PREFIX"
  train "$t" || echo "kafka.sh: no class archive was made; the broker only starts slower" >&2
  rm -rf "$t"
}
train() { # a broker that runs once, as in a test, leaves the class archive when it stops
  DATA_DIR=$1 KAFKA_VERSION=$VERSION KAFKA_PORT=0 KAFKA_NODES=1 KAFKA_COMBINED=1 KAFKA_CONF='' KAFKA_TRAIN=1 "$0" start >/dev/null || true
  DATA_DIR=$1 KAFKA_STOP_TIMEOUT=180 "$0" stop # it writes the archive when it ends
  local made=0
  [ -f "$1/kafka/classes.jsa" ] && cp "$1/kafka/classes.jsa" "$PREFIX/.jsa" && mv "$PREFIX/.jsa" "$PREFIX/classes.jsa" || made=1
  DATA_DIR=$1 "$0" destroy
  return $made
}

port() { echo $((P + 10 * ($1 - 1) + $2)); }
controller() { port $(($1 > 0 ? $1 : 1)) 9; }
brokers() { seq "$N"; }
nodes() { [ "$COMBINED" = 1 ] || echo 0; brokers; }

properties() { # properties NODE
  local i=$1 roles=broker,controller listeners='' l n=0 voters='' j rf=$((N < 3 ? N : 3)) isr=$((N < 3 ? 1 : 2))
  if [ "$COMBINED" = 1 ]; then
    for j in $(brokers); do voters=$voters,$j@127.0.0.1:$(controller "$j"); done
  else
    voters=,0@127.0.0.1:$(controller 0)
    [ "$i" = 0 ] && roles=controller || roles=broker
  fi
  if [ "$i" != 0 ]; then
    for l in PLAINTEXT TLS MTLS SASL SASLTLS; do
      listeners=$listeners,$l://127.0.0.1:$(port "$i" $n)
      n=$((n + 1))
    done
    echo "advertised.listeners=${listeners#,}"
    echo inter.broker.listener.name=PLAINTEXT
  fi
  [ "$roles" = broker ] || listeners=$listeners,CONTROLLER://127.0.0.1:$(controller "$i")
  cat <<CONF
listeners=${listeners#,}
process.roles=$roles
node.id=$i
controller.quorum.voters=${voters#,}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,TLS:SSL,MTLS:SSL,SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL,CONTROLLER:PLAINTEXT
log.dirs=$DATA/n$i/log

ssl.keystore.type=PEM
ssl.keystore.location=$DATA/tls/keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location=$DATA/tls/ca.pem
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*\$/\$1/
listener.name.mtls.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER
CONF
  for l in sasl sasltls; do
    cat <<CONF
listener.name.$l.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.$l.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.$l.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="$PASS" user_producer="$PASS" user_consumer="$PASS";
listener.name.$l.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
CONF
  done
  cat <<CONF
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS

auto.create.topics.enable=false
default.replication.factor=$rf
min.insync.replicas=$isr
offsets.topic.replication.factor=$rf
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=$rf
transaction.state.log.min.isr=$isr
transaction.state.log.num.partitions=3
share.coordinator.state.topic.replication.factor=$rf
share.coordinator.state.topic.min.isr=$isr
share.coordinator.state.topic.num.partitions=3

broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
group.consumer.min.session.timeout.ms=1000
group.share.min.heartbeat.interval.ms=100
group.share.heartbeat.interval.ms=500
group.share.min.session.timeout.ms=1000
group.share.min.record.lock.duration.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.cleaner.backoff.ms=500

num.network.threads=1
num.io.threads=2
background.threads=2
log.cleaner.dedupe.buffer.size=4194304
CONF
  tr -s ' ' '\n' <<<"$CONF"
}

configure() {
  local i
  mkdir -p "$D/tmp"
  [ "$P" != 0 ] || P=$(reserve_ports "$N")
  certificates "$D/tls" producer # the user that the client certificate stands for
  cat "$D/tls/server.key" "$D/tls/server.pem" >"$D/tls/keystore.pem"
  for i in $(nodes); do
    mkdir -p "$D/n$i/log"
    properties "$i" >"$D/n$i/server.properties"
  done
  [ "$DATA" = "$D" ] || chown -R "$RUN_AS:$RUN_AS" "$D"
  {
    printf 'KAFKA_PORT=%q\nKAFKA_NODES=%q\nKAFKA_COMBINED=%q\nKAFKA_VERSION=%q\n' "$P" "$N" "$COMBINED" "$VERSION"
    printf 'KAFKA_HEAP=%q\nKAFKA_CONF=%q\nKAFKA_JVM_OPTS=%q\nKAFKA_ACL_PREFIX=%q\nKAFKA_PASS=%q\nKAFKA_NAME=%q\n' \
      "$HEAP" "$CONF" "$JVM_OPTS" "$PREFIX_ACL" "$PASS" "$NAME"
  } >"$D/settings"
}

format() { # one JVM for the first node; the others differ only in their ids
  local first=$COMBINED i u m scram=()
  if ! [ -f "$D/n$first/log/meta.properties" ]; then
    for u in admin producer consumer; do
      for m in 512 256; do scram+=(--add-scram "SCRAM-SHA-$m=[name=$u,password=$PASS]"); done
    done
    (jvm "$(archive)" kafka.tools.StorageTool format -t "$(uuid)" -c "$DATA/n$first/server.properties" "${scram[@]}") \
      >"$D/format.log" 2>&1 || { cat "$D/format.log" >&2; exit 1; }
  fi
  for i in $(nodes); do
    [ -f "$D/n$i/log/meta.properties" ] && continue
    cp -p "$D/n$first/log/bootstrap.checkpoint" "$D/n$i/log/"
    cp -p "$D/n$first/log/meta.properties" "$D/n$i/log/.meta"
    sed -i "s/^node.id=.*/node.id=$i/; s/^directory.id=.*/directory.id=$(uuid)/" "$D/n$i/log/.meta"
    [ "$DATA" = "$D" ] || chown "$RUN_AS:$RUN_AS" "$D/n$i/log/.meta"
    mv "$D/n$i/log/.meta" "$D/n$i/log/meta.properties"
  done
}
uuid() { echo "A$(head -c 15 /dev/urandom | base64 | tr +/ -_)A"; } # 16 bytes, the last four bits 0

start_node() {
  local i=$1 a
  alive "$D/n$i/pid" && return 0
  a=$(archive)
  [ -z "${KAFKA_TRAIN:-}" ] || a=-XX:ArchiveClassesAtExit=$DATA/classes.jsa
  [ ! -f "$D/n$i/out.log" ] || mv "$D/n$i/out.log" "$D/n$i/out.old.log"
  # shellcheck disable=SC2086 # several options
  background "$D/n$i/pid" "$D/n$i/out.log" jvm "-Xmx$HEAP" "$a" $JVM_OPTS kafka.Kafka "$DATA/n$i/server.properties"
}
wait_node() { # this line comes when all listeners serve and the controller has let the broker in
  local i=$1 end=$((SECONDS + START_TIMEOUT))
  until grep -qs 'Kafka Server started' "$D/n$i/out.log"; do
    if ! alive "$D/n$i/pid" || [ $SECONDS -ge $end ]; then
      echo "kafka node $i did not start; last lines of its output:" >&2
      tail -n 20 "$D/n$i/out.log" >&2
      exit 1
    fi
    sleep 0.05
  done
}

# The ACLs go as one CreateAcls request (version 1) over the wire: each run of the tool costs 1 to 2 s.
hex() { od -An -v -tx1 | tr -d ' \n'; }
str() { printf '%04x' "${#1}"; printf %s "$1" | hex; }
acl() { # acl RESOURCE USER OPERATION: allow it on all names with the prefix, from all hosts
  printf '%02x' "$1"; str "$PREFIX_ACL"; printf 04; str "User:$2"; str '*'; printf '%02x03' "$3"
}
create_acls() {
  [ -f "$D/acls" ] && return 0
  local topic=2 group=3 transactional_id=5 read=3 write=4 request answer
  request=$(
    printf '001e000100000001'; str kafka.sh; printf '%08x' 4
    acl $topic producer $write; acl $transactional_id producer $write
    acl $topic consumer $read; acl $group consumer $read
  )
  exec 3<>"/dev/tcp/127.0.0.1/$(port 1 0)"
  printf %b "$(printf '%08x%s' $((${#request} / 2)) "$request" | sed 's/../\\x&/g')" >&3
  answer=$(timeout 20 head -c 32 <&3 | hex) # length, correlation id, throttle time, count; code and text of each
  exec 3>&-
  [[ $answer =~ ^0000001c00000001.{8}00000004(0000(0000|ffff)){4}$ ]] ||
    { echo "CreateAcls was answered $answer" >&2; exit 1; }
  touch "$D/acls"
}

all() { # all OFFSET: every broker's address of one listener
  local i r=
  for i in $(brokers); do r=$r,127.0.0.1:$(port "$i" "$1"); done
  echo "${r#,}"
}
print_env() {
  local i u
  echo "${NAME}_BOOTSTRAP='$(all 0)'"
  for i in $(brokers); do echo "${NAME}_BOOTSTRAP_$i='127.0.0.1:$(port "$i" 0)'"; done
  echo "${NAME}_TLS_BOOTSTRAP='$(all 1)'"
  echo "${NAME}_MTLS_BOOTSTRAP='$(all 2)'"
  echo "${NAME}_SASL_BOOTSTRAP='$(all 3)'"
  echo "${NAME}_SASL_TLS_BOOTSTRAP='$(all 4)'"
  echo "${NAME}_CA='$D/tls/ca.pem'"
  echo "${NAME}_CLIENT_CERT='$D/tls/client.pem'"
  echo "${NAME}_CLIENT_KEY='$D/tls/client.key'"
  for u in admin producer consumer; do
    echo "${NAME}_${u^^}_USER='$u'"
    echo "${NAME}_${u^^}_PASSWORD='$PASS'"
  done
  echo "${NAME}_ACL_PREFIX='$PREFIX_ACL'"
}

ctl() { # ctl NODE TOOL ARG...
  local i=$1 c=$2
  shift 2
  case $c in
  topics) c=org.apache.kafka.tools.TopicCommand ;;
  acls) c=org.apache.kafka.tools.AclCommand ;;
  configs) c=kafka.admin.ConfigCommand ;;
  groups) c=org.apache.kafka.tools.GroupsCommand ;;
  consumer-groups) c=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
  share-groups) c=org.apache.kafka.tools.consumer.group.ShareGroupCommand ;;
  features) c=org.apache.kafka.tools.FeatureCommand ;;
  metadata-quorum) c=org.apache.kafka.tools.MetadataQuorumCommand ;;
  transactions) c=org.apache.kafka.tools.TransactionsCommand ;;
  esac
  jvm "$(archive)" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn "$c" --bootstrap-server "127.0.0.1:$(port "$i" 0)" "$@"
}

start() {
  local i
  install
  configure
  format
  for i in $(nodes); do start_node "$i"; done
  for i in $(nodes); do wait_node "$i"; done
  create_acls
  print_env
}
stop() {
  local i
  for i in $(brokers); do end "$D/n$i/pid" TERM "$STOP_TIMEOUT" & done
  wait
  [ "$COMBINED" = 1 ] || end "$D/n0/pid" TERM "$STOP_TIMEOUT"
}
started() { [ -f "$D/settings" ] || { echo "kafka.sh: nothing was started in $DATA_DIR" >&2; exit 1; }; }

cmd=${1:-}
shift || true
case $cmd in
install) install; echo "kafka $VERSION"; "$JAVA" -version 2>&1 | sed -n 1p ;;
start) start ;;
start-node) started; start_node "$1"; wait_node "$1" ;;
kill) started; end "$D/n$1/pid" KILL 5 ;;
pause) started; signal STOP "$D/n$1/pid" ;;
resume) started; signal CONT "$D/n$1/pid" ;;
ctl) started; ctl "$@" ;;
env) started; print_env ;;
status) for i in $(nodes); do alive "$D/n$i/pid" && echo "kafka $i runs" || echo "kafka $i is stopped"; done ;;
stop) stop ;;
destroy) stop; release_ports; rm -rf "$D" ;;
*) usage ;;
esac

#!/usr/bin/env bash
# Searches every state of relay.pml, then shows that each planted fault breaks it. The last line sums up; the exit code
# is 0 only if the model is clean and every fault is found. It needs spin and gcc: code 3 where they cannot be had.
# With the argument "deep": the configurations that take minutes, alone.
set -uo pipefail
cd "$(dirname "$0")" || exit
MODEL=$PWD/relay.pml
D=$PWD # lib.sh's owner of ports; none are reserved here
# shellcheck source-path=SCRIPTDIR source=../../tools/services/lib.sh
. ../../tools/services/lib.sh
need spin spin
need gcc gcc libc6-dev

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

lane='-DEPOCHS=3 -DEPOCHS1=0 -DLOSSES=2 -DCRASHES=1' # lane 0 alone, in depth
both='-DEPOCHS=2 -DEPOCHS1=2 -DLOSSES=1 -DCRASHES=1' # two lanes, one group of outcomes
stray='-DEPOCHS=2 -DEPOCHS1=0 -DLOSSES=1 -DCRASHES=1' # a statement that is given up and runs late
deep='-DEPOCHS=3 -DEPOCHS1=0 -DLOSSES=1 -DCRASHES=1' # the same with one owner more
one='-DRELAYS=1 -DEPOCHS=3 -DEPOCHS1=0 -DLOSSES=2 -DCRASHES=1'

# name | what must come out: clean or the broken check | flags | in words
runs() {
  if [ "${1:-}" = deep ]; then
    cat <<RUNS
claim|clean|$deep -DSTRAY=1|a claim runs late
clean|clean|$deep -DSTRAY=2|a clean window is closed late
give-back|clean|$deep -DSTRAY=4|a lane is given back late
take-over|clean|$deep -DSTRAY=8|a take-over runs late
RUNS
    return
  fi
  cat <<RUNS
late|clean|$lane|a row commits late
scheduled|clean|$lane -DSCHED|a scheduled row becomes due
lanes|clean|$both|two lanes
late-statement|clean|$stray -DSTRAY=15|a statement about the window was given up and runs late
1|honest|$lane -DMUT=1|outcomes without fence and version
2|honest|$lane -DMUT=2|the window is not recorded
3|honest|$lane -DMUT=3|back to PENDING after doubt
4|order|$lane -DMUT=4|a retry does not hold its key
5|honest|$lane -DMUT=5|the take-over forgets window_ids
6|order|$lane -DMUT=6|a due row that is not the head goes out
7|all|$lane -DMUT=7|the cursor only moves forward
8|honest|$lane -DMUT=8|take-over without lock: a bare UPDATE after a look
9|truth|$lane -DLATE=1 -DMUT=9|outcome by range
10|honest|$both -DMUT=10|one fence for the whole group
11|order|$lane -DMUT=11|read on past a row that stayed as it was
12|all|$one -DMUT=12|a relay never takes a lane that names it already
13|honest|$stray -DSTRAY=1 -DMUT=13|a claim runs late, without a number
14|honest|$stray -DSTRAY=2 -DMUT=13|a clean window is closed late, without a number
15|honest|$stray -DSTRAY=4 -DMUT=13|a lane is given back late, without a number
16|all|$stray -DSTRAY=8 -DMUT=13|a take-over runs late, without a number
17|honest|$stray -DSTRAY=16 -DMUT=13|a record run late takes a row out of the window that it did not write
RUNS
}

# check_of OUTPUT: which check failed
check_of() {
  case $1 in
  *'wr&'*) echo honest ;;
  *'late!='*) echo order ;;
  *'stored&'*) echo truth ;;
  *'st[0]==4'*) echo all ;;
  *) echo "${1:-nothing}" ;;
  esac
}

search() { # search NAME WANT FLAGS WORDS
  local name=$1 want=$2 words=$4 dir=$WORK/$1 got states start=$SECONDS optimise=-O1
  local -a flags
  read -ra flags <<<"$3"
  [ "$want" != clean ] || optimise=-O2
  mkdir "$dir" && cd "$dir" || return 1
  if ! { spin "${flags[@]}" -a "$MODEL" && gcc $optimise -w -DSAFETY -DMEMLIM=1900 -o pan pan.c; } >build 2>&1; then
    echo "FAIL  $name: does not compile"
    cat build
    return 1
  fi
  nice timeout 300 ./pan -m50000 -w24 -n >out 2>&1
  states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' out)
  if grep -q 'errors: 0' out && ! grep -qi 'search depth too small\|max search depth\|Search not completed\|out of memory\|memory limit' out; then
    got=clean
  else
    got=$(check_of "$(sed -nE 's/^pan:[0-9]*: (.*)/\1/p' out | head -1)")
  fi
  if [ "$got" = "$want" ]; then
    printf 'ok    %-14s %-7s %9s states %3ds  %s\n' "$name" "$got" "$states" $((SECONDS - start)) "$words"
  else
    printf 'FAIL  %-14s %s instead of %s  %s\n' "$name" "$got" "$want" "$words"
    return 1
  fi
}

SECONDS=0
while IFS='|' read -r name want flags words; do
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
  (search "$name" "$want" "$flags" "$words" && echo "$want" >"$WORK/$name.ok") &
done < <(runs "$@")
wait
clean=$(grep -lx clean "$WORK"/*.ok 2>/dev/null | wc -l)
found=$(grep -Lx clean "$WORK"/*.ok 2>/dev/null | wc -l)
all=$(runs "$@" | wc -l)
faults=$(runs "$@" | grep -vc '|clean|')
echo "model: $clean of $((all - faults)) configurations clean, $found of $faults faults found, ${SECONDS}s"
[ $((clean + found)) = "$all" ]

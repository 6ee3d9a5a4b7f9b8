#!/usr/bin/env bash
# Measures on this machine, which should be calm, what requests through the processes of
# a fleet take that no module takes: latency of small ones over gRPC and over HTTP, from one
# caller that waits for each answer ("one"), 100 a second and 1,000 a second; and of large ones
# the processor time of gateways for each, with one gateway and with two.
#
#   examples/fleet/measure.sh [HARPAGON] [SECONDS]
#
#   RATE=100   large requests per second, of 1 MiB each
#   NODE=PROGRAM
#   TLS=no     without TLS, as processes of one machine may do
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harpagon=${1:-bin/harpagon}
node=${NODE:-$harpagon}
seconds=${2:-20}
work=$(mktemp -d)
POSTGRES=no
. "$here/topology.sh"
trap end_all EXIT

prepare && begin_all || exit 1
"$node" apply "$here/echo" $(tls client) >"$work/apply.log" || exit 1
for number in 1 2; do answers /v2/models/small/ready $number && answers /v2/models/large/ready $number || exit 1; done

ticks=$(getconf CLK_TCK)
spent() { # in milliseconds, of both gateways
  awk -v t="$ticks" '{ sum += $14 + $15 } END { print sum * 1000 / t }' "/proc/${pid[gateway-1]}/stat" "/proc/${pid[gateway-2]}/stat"
}

measure() { # PIPELINE GATEWAYS HOW, of one caller or RATE/s
  local before how="--callers 1"
  [ "$3" = one ] || how="--rate $3 --arrivals even"
  before=$(spent)
  "$node" load "$1" --gateway "$2" $how --duration "${seconds}s" --warmup 2s --json $(tls client) >"$work/load.json" 2>>"$work/load.log"
  python3 - "$work/load.json" "$before" "$(spent)" "$1, $3 through $2" "$seconds" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
one = report["loads"][0] if "loads" in report else report
spent = float(sys.argv[3]) - float(sys.argv[2])
stage = report["stages"][0]
took = ", ".join(f"{part} {stage[part + '_ms']['p50']:.3f}" for part in ("queue", "wait", "compute", "transfer"))
print(f"{sys.argv[4]}: {one['completed']} of {one['sent']} in time, p50 {one['latency_ms']['p50']:.3f} ms ({took}), p99 {one['latency_ms']['p99']:.3f} ms, "
      f"{one['completed'] / float(sys.argv[5]):.0f}/s, gateways {spent / max(one['sent'], 1):.3f} ms of processor time a request (warm-up included)")
PY
}

for how in one 100 1000; do
  measure small "grpc$secured://$(at 112)" $how
  measure small "$(at 110)" $how
done
measure large "$(at 110)" "${RATE:-100}"
measure large "$gateways" "${RATE:-100}"

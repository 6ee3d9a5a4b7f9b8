#!/usr/bin/env bash
# Takes Temporal and its database away from a fleet that serves, for ten minutes or AWAY
# seconds, offers load all the while, and looks whether what changed meanwhile is caught up:
# the gateway that was killed, and a declaration applied as soon as there is a server.
#
#   examples/fleet/away.sh [HARPAGON]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harpagon=${1:-bin/harpagon}
node=${NODE:-$harpagon}
away=${AWAY:-600}
work=$(mktemp -d)
. "$here/topology.sh"
trap end_all EXIT

offer() { # NAME SECONDS
  "$node" load fleet --gateway "$gateways" --rate "${RATE:-50}" --duration "$2s" --warmup 1s --timeout 10s --json $(tls client) \
    >"$work/$1.json" 2>"$work/$1.log"
  python3 - "$work/$1.json" "$1" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
one = report["loads"][0] if "loads" in report else report
lost = one["failed"] + one["unanswered"] + one["wrong"]
print(f"{sys.argv[2]}: {one['sent']} sent, {one['completed']} in time, {one['late']} late, {one['dropped'] + one['refused']} dropped or refused, "
      f"{lost} failed; p50 {one['latency_ms']['p50']:.1f} ms, p99 {one['latency_ms']['p99']:.1f} ms, the longest {one['latency_ms']['max']:.1f} ms")
PY
}

prepare && begin_all || exit 1
"$node" apply "$here" $(tls client) || exit 1
answers /v2/models/fleet/ready 1 && answers /v2/models/fleet/ready 2 || exit 1
offer before 30
for name in "${!pid[@]}"; do
  case $name in temporal-* | postgres) end "$name" ;; esac
done
echo "$(date +%T) Temporal and its database are gone"
offer away-1 $((away / 2))
end gateway-2
begin gateway-2 # waits for a server; its callers go to the other
offer away-2 $((away / 2))
[ "${POSTGRES:-yes}" = no ] || begin postgres
begin temporal-1
[ "${POSTGRES:-yes}" = no ] || begin temporal-2
back=$(date +%s)
offer back 60 &
load=$!
while ! "$node" apply "$here" --reason "meanwhile" $(tls client) >"$work/apply.log" 2>&1; do sleep 1; done
echo "$(date +%T) a declaration is accepted $(($(date +%s) - back)) s after Temporal began to start"
answers /v2/models/fleet/ready 2 && echo "$(date +%T) the gateway that was killed serves again, after $(($(date +%s) - back)) s"
wait $load
"$node" status $(tls client)

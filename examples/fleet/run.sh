#!/usr/bin/env bash
# Runs a fleet of processes on this machine, offers it a load, kills its processes one
# after the other with kill -9 and starts them again, and ends with a verdict. Everything
# it starts it stops. topology.sh says which processes these are.
#
#   examples/fleet/run.sh [HARPAGON] [SECONDS]
#
#   RATE=50         requests per second
#   SKIP="NAME..."  processes that are not killed
#   AWAY=20         seconds for which Temporal and its database stay away, all of them
#   KEEP=yes        leave the logs
#   NODE=PROGRAM    for the roles: one that was built without the Temporal server is smaller
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harpagon=${1:-bin/harpagon}
node=${NODE:-$harpagon}
seconds=${2:-90}
work=$(mktemp -d)
. "$here/topology.sh"
trap end_all EXIT

prepare || exit 1
begin_all || exit 1
"$node" apply "$here" $(tls client) || exit 1
answers /v2/models/fleet/ready 1 && answers /v2/models/fleet/ready 2 || exit 1
echo "the fleet serves; status:"
"$node" status --json $(tls client) | sed -n '/"fleet"/,$p' | tr -d ' \n' | head -c 600
echo

"$node" load fleet --gateway "$gateways" --rate "${RATE:-50}" --duration "${seconds}s" --timeout 10s --json $(tls client) \
  >"$work/load.json" 2>"$work/load.log" &
load=$!
killed=0
last=$((SECONDS + seconds - 15))
temporals="temporal-1 temporal-2"
[ "${POSTGRES:-yes}" = no ] && temporals=temporal-1

# The word temporal stands for all of Temporal, with its database, being away.
for name in gateway-1 dispatcher-1 temporal-1 gateway-2 control-1 dispatcher-2 worker-1 postgres temporal \
  control-2 gateway-1 dispatcher-1 temporal-2 worker-2 gateway-2 dispatcher-2; do
  [ $SECONDS -lt $last ] || break
  case " ${SKIP:-} " in *" $name "*) continue ;; esac
  case $name in temporal | postgres | temporal-*) [ "${POSTGRES:-yes}" = no ] && [ $name != temporal ] && continue ;; esac
  sleep "${PAUSE:-4}"
  echo "$(date +%T) kill -9 $name"
  killed=$((killed + 1))
  if [ $name = temporal ]; then
    for one in $temporals postgres; do [ -n "${pid[$one]:-}" ] && end $one; done
    sleep "${AWAY:-20}"
    [ -n "${pid[postgres]:-}" ] && begin postgres
    for one in $temporals; do begin $one; done
    continue
  fi
  end $name
  begin $name
  case $name in
    gateway-*) answers /v2/models/fleet/ready "${name##*-}" ;;
    worker-*) sleep "${REPLAN:-15}" ;;
  esac
done
wait $load
echo "resident memory, MiB:"
for name in "${!pid[@]}"; do
  echo "  $name $(($(awk '/VmRSS/ {print $2}' "/proc/${pid[$name]}/status" 2>/dev/null || echo 0) / 1024))"
done | sort
python3 - "$work/load.json" "$killed" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
one = report["loads"][0] if "loads" in report else report
print(json.dumps({k: one[k] for k in one if k in (
    "offered", "sent", "completed", "late", "dropped", "refused", "failed", "unanswered", "wrong", "attainment", "latency_ms", "errors")}))
lost = one["failed"] + one["unanswered"] + one["wrong"]
print(f"verdict: {sys.argv[2]} processes killed, {one['sent']} requests sent, {one['completed']} in time, {one['late']} late, "
      f"{one['dropped'] + one['refused']} dropped or refused, {lost} failed")
sys.exit(lost > 0)
PY

#!/usr/bin/env bash
# Runs a fleet of processes on this machine, offers it a load, kills its processes
# one after the other with kill -9 and starts them again, takes Temporal away for a
# while, and ends with a verdict. Everything it starts it stops.
#
#   examples/fleet/run.sh [HARPAGON] [SECONDS]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harpagon=${1:-bin/harpagon}
seconds=${2:-90}
work=$(mktemp -d)
export TEMPORAL_ADDRESS=127.0.0.1:${TEMPORAL_PORT:-17233}
export HARPAGON_TOKEN=
dispatchers="--dispatcher 127.0.0.1:18094 --dispatcher 127.0.0.1:18096"
declare -A pid

start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" >>"$work/$name.log" 2>&1 &
  pid[$name]=$!
}

begin() { # NAME
  case $1 in
    temporal) start temporal "$harpagon" temporal --addr "$TEMPORAL_ADDRESS" --ui "" --state "$work/temporal" ;;
    control-*) start "$1" "$harpagon" control ;;
    dispatcher-1) start "$1" "$harpagon" dispatcher --name "$1" --listen 127.0.0.1:18094 ;;
    dispatcher-2) start "$1" "$harpagon" dispatcher --name "$1" --listen 127.0.0.1:18096 ;;
    gateway-1) start "$1" "$harpagon" gateway --name gateway-1 --http 127.0.0.1:18081 --grpc "" --attach 127.0.0.1:18091 $dispatchers ;;
    gateway-2) start "$1" "$harpagon" gateway --name gateway-2 --http 127.0.0.1:18082 --grpc "" --attach 127.0.0.1:18092 $dispatchers ;;
    worker-*) start "$1" "$harpagon" worker --name "$1" --cores 2 ;;
  esac
}

end() { # NAME
  kill -9 "${pid[$1]}" 2>/dev/null
  wait "${pid[$1]}" 2>/dev/null
}

stop_all() {
  for name in "${!pid[@]}"; do
    kill -9 "${pid[$name]}" 2>/dev/null
  done
  wait 2>/dev/null
  [ -n "${KEEP:-}" ] && echo "logs are in $work" || rm -rf "$work"
}
trap stop_all EXIT

answers() { # URL: waits until it does
  for _ in $(seq 240); do
    [ "$(curl -s -o /dev/null -w '%{http_code}' "$1")" = 200 ] && return 0
    sleep 0.5
  done
  echo "nothing answers at $1"
  return 1
}

begin temporal
sleep 3
for name in control-1 control-2; do begin $name; done
sleep 1
for name in dispatcher-1 dispatcher-2 worker-1 worker-2 gateway-1 gateway-2; do begin $name; done
answers http://127.0.0.1:18081/v2/health/ready && answers http://127.0.0.1:18082/v2/health/ready || exit 1
"$harpagon" apply "$here" || exit 1
answers http://127.0.0.1:18081/v2/models/fleet/ready && answers http://127.0.0.1:18082/v2/models/fleet/ready || exit 1
echo "the fleet serves; status:"
"$harpagon" status --json | sed -n '/"fleet"/,$p' | tr -d ' \n' | head -c 600
echo

"$harpagon" load fleet --gateway 127.0.0.1:18081,127.0.0.1:18082 --rate 50 --duration "${seconds}s" --timeout 10s --json >"$work/load.json" 2>"$work/load.log" &
load=$!
killed=0
last=$((SECONDS + seconds - 15))
for name in gateway-1 dispatcher-1 gateway-2 control-1 dispatcher-2 worker-1 temporal control-2 gateway-1 dispatcher-1 worker-2 gateway-2 dispatcher-2; do
  [ $SECONDS -lt $last ] || break
  case " ${SKIP:-} " in *" $name "*) continue ;; esac
  sleep 4
  echo "kill -9 $name"
  end $name
  killed=$((killed + 1))
  [ $name = temporal ] && sleep "${AWAY:-20}"
  begin $name
  case $name in
    gateway-1) answers http://127.0.0.1:18081/v2/models/fleet/ready ;;
    gateway-2) answers http://127.0.0.1:18082/v2/models/fleet/ready ;;
    worker-*) sleep "${REPLAN:-15}" ;;
  esac
done
wait $load
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

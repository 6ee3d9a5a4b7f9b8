#!/usr/bin/env bash
# Kills `harpagon up` under load with kill -9 and starts it again, so often in a row, and
# ends with a verdict: after how long it was ready each time, whether any process of it
# was left, and what became of the requests. Every third time it is killed again before
# it is ready. Everything it starts it stops.
#
#   examples/fleet/restart.sh [HARPAGON] [KILLS]
#
#   DECLARATION=examples/traffic   what is served
#   NAME=traffic RATE=20           the pipeline that is asked, and how often a second
#   PORT=17400                     of HTTP
#   WITHIN=10                      seconds in which it must be ready
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harpagon=${1:-bin/harpagon}
kills=${2:-20}
name=${NAME:-traffic}
address=127.0.0.1:${PORT:-17400}
work=$(mktemp -d)
up=
load=
end() {
  [ -n "$up" ] && kill -9 "$up" 2>/dev/null
  [ -n "$load" ] && kill "$load" 2>/dev/null
  rm -rf "$work"
}
trap end EXIT

begin() { # in a session of its own, so that whatever it starts can be found
  setsid "$harpagon" up "$@" --state "$work/state" --http "$address" --grpc "" --without-ui --ui 127.0.0.1:0 >>"$work/up.log" 2>&1 &
  up=$!
}

# ready: waits until it serves, and sets took to the seconds since began.
ready() {
  for _ in $(seq 1200); do
    if [ "$(curl -s -m 1 -o /dev/null -w '%{http_code}' "http://$address/v2/models/$name/ready")" = 200 ]; then
      took=$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $began}")
      return
    fi
    sleep 0.05
  done
  tail -5 "$work/up.log"
  return 1
}

began=$(date +%s.%N)
begin "${DECLARATION:-$here/../traffic}"
ready || exit 1
echo "first ready after $took s"
"$harpagon" load "$name" --gateway "$address" --rate "${RATE:-20}" --duration 1h --timeout 5s --json >"$work/load.json" 2>"$work/load.log" &
load=$!
orphans=0
: >"$work/took"
for n in $(seq "$kills"); do
  sleep 1
  old=$up
  kill -9 "$old"
  wait "$old" 2>/dev/null
  began=$(date +%s.%N)
  begin
  if [ $((n % 3)) = 0 ]; then
    sleep "0.$((RANDOM % 9 + 1))"
    echo "kill $n: killed again before it was ready"
  else
    ready || exit 1
    echo "kill $n: ready after $took s"
    echo "$took" >>"$work/took"
  fi
  left=$(ps -o stat= -s "$old" | grep -cv Z) # who has ended and is not waited for is no process
  [ "$left" = 0 ] || { ps -o pid,stat,args -s "$old"; orphans=$((orphans + left)); }
done
ready || exit 1
kill -INT "$load"
wait "$load"
load=
python3 - "$work/load.json" "$work/took" "$orphans" "${WITHIN:-10}" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
one = report["loads"][0] if "loads" in report else report
took = sorted(float(line) for line in open(sys.argv[2]))
orphans, within = int(sys.argv[3]), float(sys.argv[4])
print(json.dumps({k: one[k] for k in one if k in ("sent", "completed", "late", "dropped", "refused", "failed", "unanswered", "wrong", "errors")}))
print(f"verdict: ready {len(took)} times, after {took[len(took) // 2]} s (median), {took[-1]} s (longest); {orphans} processes left")
sys.exit(took[-1] > within or orphans > 0)
PY

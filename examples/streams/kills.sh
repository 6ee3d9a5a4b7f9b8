#!/usr/bin/env bash
# Forty cameras, for ten minutes or SECONDS_LONG, of which a fleet on this machine answers every frame: two
# of each role, on emulated devices. Meanwhile it kills (kill -9) a worker with its engines, a gateway
# and a dispatcher in turn, every twenty seconds, and starts each again; and thirty per cent more
# cameras than planned come and are refused. It ends with a verdict, from a line for each frame: every
# frame of every camera has one end, its answer carries its own number, answers came in order, none failed
# without a type, no camera was refused when it opened, and none more was let in. The shares in
# time are printed, with and without the frames that were due within a second after a kill, and how many
# frames were missed for which cause; with
# STRICT=yes, on a calm machine, each share must be 0.99 without them.
#
#   examples/streams/kills.sh [HARPAGON]
#
#   POSTGRES=yes TLS=yes   as in examples/fleet/topology.sh
#   DECLARED=examples/voices PIPELINE=voices STREAMS=16 OFFER="--cores 1"   another pipeline, as many of
#                          whose streams as it is planned for, and what each worker offers for it
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
harpagon=${1:-bin/harpagon}
node=$harpagon
seconds=${SECONDS_LONG:-600}
declared=${DECLARED:-$here} pipeline=${PIPELINE:-crossing} streams=${STREAMS:-40} more=$((${STREAMS:-40} * 3 / 10))
export POSTGRES=${POSTGRES:-no} TLS=${TLS:-no}
work=$(mktemp -d)
. "$here/../fleet/topology.sh"
begin_of_fleet=$(declare -f begin)
eval "of_fleet${begin_of_fleet#begin}"
begin() { # workers offer devices that are not there
  case $1 in
    worker-*) start "$1" "$node" worker --name "$1" ${OFFER:---emulate gpu=4} $(tls "$1") ;;
    *) of_fleet "$1" ;;
  esac
}
trap end_all EXIT

prepare && begin_all || exit 1
"$node" apply "$declared" $(tls client) || exit 1
answers /v2/models/$pipeline/ready 1 && answers /v2/models/$pipeline/ready 2 || exit 1
feed() { "$node" feed "$pipeline" --gateway "$gateways" --json $(tls client) "$@"; }
feed --streams "$streams" --duration "${seconds}s" --frames "$work/all.csv" >"$work/all.json" 2>"$work/all.log" &
feeding=$!
sleep 10
feed --streams "$more" --duration 10s >"$work/more.json" 2>"$work/more.log"
victims=(worker-1 gateway-1 dispatcher-1 worker-2 gateway-2 dispatcher-2)
for ((n = 0; ; n++)); do
  sleep 18
  kill -0 $feeding 2>/dev/null || break
  name=${victims[n % ${#victims[@]}]}
  echo "$(date +%s.%N) $name" >>"$work/kills"
  echo "$(date +%T) kill -9 $name"
  end "$name"
  sleep 2
  begin "$name"
done
wait $feeding
python3 - "$work" "$more" "${STRICT:-no}" <<'PY'
import collections, csv, datetime, json, sys
work, extra, strict = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "yes"
feed = json.load(open(work + "/all.json"))["feeds"][0]
more = json.load(open(work + "/more.json"))["feeds"][0]
began = datetime.datetime.fromisoformat(feed["began"][:26].rstrip("Z") + "+00:00").timestamp()
kills = [float(line.split()[0]) - began for line in open(work + "/kills")]
faults = []
streams = feed["streams"]
for s in streams:
    if s["refused"]:
        faults.append(f"{s['name']} was refused")
frames = collections.defaultdict(list)
for line in csv.DictReader(open(work + "/all.csv")):
    frames[line["stream"]].append(line)
if sorted(frames) != sorted(s["name"] for s in streams):
    faults.append("cameras without frames")
for name, lines in frames.items():
    numbers = sorted(int(line["frame"]) for line in lines)
    if numbers != list(range(len(numbers))):
        faults.append(f"{name}: {len(numbers)} ends of {len(set(numbers))} frames up to number {numbers[-1]}")
    sent = [line for line in lines if line["end"] != "unsent"]
    if any(int(a["frame"]) >= int(b["frame"]) or float(a["answered_s"]) > float(b["answered_s"]) for a, b in zip(sent, sent[1:])):
        faults.append(f"{name}: answers out of order")
    wrong = [line["frame"] for line in sent if (line["answer_of"] or line["frame"]) != line["frame"]]
    if wrong or any(line["end"] in ("in_time", "late", "sent_late") and not line["answer_of"] for line in sent):
        faults.append(f"{name}: answers of other frames, or of none: {wrong[:5]}")
untyped = [c for c in feed.get("reasons") or {} if c not in ("overloaded", "deadline", "unavailable", "canceled")]
if untyped:
    faults.append(f"errors of {untyped}")
if more["refused_streams"] != extra:
    faults.append(f"{extra - more['refused_streams']} cameras more than planned were let in")
def share(s, excepted):
    missed = [m for m in s.get("missed_at_s") or [] if not (excepted and any(0 <= m - k <= 1 for k in kills))]
    return 1 - len(missed) / max(1, s["sent"] + s["unsent"])
ends = collections.Counter((line["end"], any(0 <= float(line["due_s"]) - k <= 1 for k in kills)) for lines in frames.values() for line in lines)
print(f"{len(kills)} kills; {sum(ends.values())} frames of {len(frames)} cameras; latency {feed['latency_ms']}")
for end in feed["frames"]:
    print(f"  {end}: {ends[end, False] + ends[end, True]}, of these {ends[end, True]} due within a second after a kill")
for excepted in (False, True):
    all = sorted(share(s, excepted) for s in streams)
    print(("without frames due within a second after a kill" if excepted else "of all frames") + f": worst camera {all[0]:.4f}, median {all[len(all) // 2]:.4f} in time")
print("reasons:", json.dumps(feed.get("reasons"), indent=1))
if strict and min(share(s, True) for s in streams) < 0.99:
    faults.append("a camera had less than 0.99 in time")
print("\n".join(faults) if faults else "as it should be")
sys.exit(bool(faults))
PY

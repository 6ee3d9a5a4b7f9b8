#!/usr/bin/env python3
"""Serves a cluster at several loads and sets the attainment of each pipeline beside
what the simulator says for the same plan.

    compare.py HARPAGON FOLDER [--factors 0.5,0.8,1.0] [--duration 20] [--var name=value]

FOLDER declares one cluster. A factor of 1 is the goodput of its plan: the rate at which
every pipeline keeps its attainment. Modules must have profiles on file.
"""
import argparse, json, os, signal, subprocess, sys, tempfile, time

p = argparse.ArgumentParser()
p.add_argument("program")
p.add_argument("folder")
p.add_argument("--factors", default="0.5,0.8,1.0")
p.add_argument("--duration", type=int, default=20)
p.add_argument("--var", action="append", default=[])
a = p.parse_args()
flags = [x for v in a.var for x in ("--var", v)]


def call(*args, check=True):
    r = subprocess.run([a.program, *args], capture_output=True, text=True)
    if check and r.returncode:
        sys.exit(f"{' '.join(args)}: {r.stderr}")
    return r.stdout


cluster = json.loads(call("plan", a.folder, "--json", *flags))["clusters"][0]
print(f"cluster {cluster['cluster']}: {cluster['devices']} {cluster['hardware']}, {cluster['dispatch']}, goodput {cluster['goodput_rate']:.4g}/s")
state = tempfile.mkdtemp()
serving = subprocess.Popen([a.program, "up", a.folder, *flags, "--state", state, "--without-ui", "--http", "127.0.0.1:18310", "--grpc", "127.0.0.1:0"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    for line in serving.stdout:
        if line.startswith("ready after"):
            break
    worst = 0.0
    for factor in map(float, a.factors.split(",")):
        rate = factor * cluster["goodput_rate"]
        simulated = json.loads(call("simulate", a.folder, *flags, "--rate", str(rate), "--duration", "120s", "--fanout", "near", "--json"))
        expected = {s["pipeline"]: s["attainment"] for s in simulated["simulations"]}
        loads = json.loads(call("load", cluster["cluster"], "--gateway", "127.0.0.1:18310", "--rate", str(rate), "--duration", f"{a.duration}s", "--json"))["loads"]
        for one in loads:
            off = one["attainment"] - expected[one["service"]]
            worst = min(worst, off)
            print(f"  {factor:4.2f} {one['service']:12} offered {one['offered']:7.1f}/s  served {one['attainment']:.4f}  simulated {expected[one['service']]:.4f}  {100 * off:+.2f} points")
    print(f"worst: {100 * worst:+.2f} points")
finally:
    serving.send_signal(signal.SIGINT)
    serving.wait()

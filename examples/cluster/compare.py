#!/usr/bin/env python3
"""Serves a cluster at several loads and sets the attainment of each pipeline beside
what the simulator says for the same plan and the same profiles.

    compare.py HARPAGON FOLDER [--factors 0.5,0.8,0.95] [--duration 20] [--state FOLDER]
               [--http ADDRESS] [--input PIPELINE/NAME=PATH]... [--var name=value]... [--fanout near]

FOLDER declares one cluster. A factor of 1 is the goodput of its plan: the rate at which
every pipeline keeps its attainment. What has no profile on file is measured first, and
kept in the state folder where one is given. Emulated modules spread fan-out as little
as can be, which --fanout near has the simulator do, too.
"""
import argparse, json, tempfile
from serving import call, up

p = argparse.ArgumentParser()
p.add_argument("program")
p.add_argument("folder")
p.add_argument("--factors", default="0.5,0.8,0.95")
p.add_argument("--duration", type=int, default=20)
p.add_argument("--state", default=None)
p.add_argument("--fanout", default="poisson")
p.add_argument("--http", default="127.0.0.1:18310")
p.add_argument("--input", action="append", default=[])
p.add_argument("--var", action="append", default=[])
a = p.parse_args()
state = a.state or tempfile.mkdtemp()
flags = [x for v in a.var for x in ("--var", v)] + ["--state", state]
inputs = [x for v in a.input for x in ("--input", v)]

with up(a.program, a.folder, a.http, *flags, "--fixed"):
    # The goodput is looked for last; a search that is ended before tells the declared rates.
    cluster = json.loads(call(a.program, "plan", a.folder, "--json", "--time-limit", "2m", *flags))["clusters"][0]
    least = "at least " if cluster.get("cut_short") else ""
    print(f"cluster {cluster['cluster']}: {cluster['devices']} {cluster['hardware']}, {cluster['dispatch']}, goodput {least}{cluster['goodput_rate']:.4g}/s", flush=True)
    worst = 0.0
    for factor in map(float, a.factors.split(",")):
        rate = factor * cluster["goodput_rate"]
        simulated = json.loads(call(a.program, "simulate", a.folder, *flags, "--rate", str(rate), "--duration", "120s", "--fanout", a.fanout, "--json"))
        expected = {s["pipeline"]: s["attainment"] for s in simulated["simulations"]}
        loads = json.loads(call(a.program, "load", cluster["cluster"], "--gateway", a.http, "--rate", str(rate), "--duration", f"{a.duration}s", "--json", *inputs))["loads"]
        for one in loads:
            off = one["attainment"] - expected[one["service"]]
            worst = min(worst, off)
            print(f"  {factor:4.2f} {one['service']:12} offered {one['offered']:7.1f}/s  served {one['attainment']:.4f} of {one['sent']}  simulated {expected[one['service']]:.4f}  {100 * off:+.2f} points", flush=True)
    print(f"worst: {100 * worst:+.2f} points")

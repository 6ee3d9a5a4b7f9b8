#!/usr/bin/env python3
"""Plays a changing workload on a cluster of emulated devices that follows its own advice,
and sets what was served beside what the simulator says for the same requests.

    changing.py HARPAGON [--networks 24] [--devices 64] [--least 4] [--stretch 60]
                [--minutes 6] [--peak 220] [--http 127.0.0.1:18310]

As in Symphony's changing workload (section 5.6, figure 14) every network has a rate of its
own that wanders, and their sum rises, falls and rises again; the paper's rates are not
published, these are drawn. One `harpagon load` for each network follows its trace.
"""
import argparse, json, math, os, random, subprocess, sys, tempfile, time
import zoo

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import call, up

p = argparse.ArgumentParser()
p.add_argument("program")
p.add_argument("--networks", type=int, default=24)
p.add_argument("--devices", type=int, default=64)
p.add_argument("--least", type=int, default=4)
p.add_argument("--stretch", type=float, default=60)
p.add_argument("--minutes", type=int, default=6)
p.add_argument("--peak", type=float, default=220)
p.add_argument("--start", default="2s", help="until a device serves, for the simulation")
p.add_argument("--http", default="127.0.0.1:18310")
a = p.parse_args()
program = os.path.abspath(a.program)
folder = tempfile.mkdtemp()
seconds = 60 * a.minutes

# The sum of the rates goes from 0.3 to all of the peak, twice; each part of it wanders.
random.seed(14)
names = [n["network"].lower() for n in zoo.networks(a.networks)]
wander, traces = [0.0] * len(names), [[] for _ in names]
for s in range(seconds):
    whole = a.peak * (0.65 - 0.35 * math.cos(4 * math.pi * s / seconds))
    wander = [0.98 * w + 0.1 * random.gauss(0, 1) for w in wander]
    parts = [math.exp(w) for w in wander]
    for i, part in enumerate(parts):
        rate = whole * part / sum(parts)
        traces[i].append(max(0, round(rate + math.sqrt(rate) * random.gauss(0, 1))))
files = {}
for name, trace in zip(names, traces):
    files[name] = os.path.join(folder, name + ".trace.csv")
    with open(files[name], "w") as f:
        f.write("\n".join(map(str, trace)) + "\n")
zoo.write(folder, a.networks, a.devices, a.least, a.stretch, None, files)
flags = ["--state", os.path.join(folder, "state")]

simulated = json.loads(call(program, "simulate", folder, "--duration", f"{seconds}s", "--scale", a.start, "--json"))
sizes = simulated["scaled"][0]["sizes"]

loads = []
with up(program, folder, a.http, *flags):
    try:
        began = time.time()
        loads = [subprocess.Popen([program, "load", name, "--gateway", a.http, "--arrivals", "trace:" + files[name], "--duration", f"{seconds}s", "--json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for name in names]
        served = []  # devices, by time
        while time.time() - began < seconds + 10:
            time.sleep(5)
            status = subprocess.run([program, "status", "zoo", *flags, "--json"], capture_output=True, text=True)
            if status.returncode == 0:
                served.append((time.time() - began, json.loads(status.stdout)["services"][0]["plan"]["devices"]))
        results = [json.loads(l.communicate()[0])["loads"][0] for l in loads]
    finally:
        for l in loads:
            if l.poll() is None:
                l.kill()

print("| minute | requests/s | devices, simulated | devices, served |\n|---:|---:|---:|---:|")
for m in range(a.minutes):
    within = lambda list: [n for t, n in list if 60 * m < t <= 60 * (m + 1)]
    mean = lambda list: sum(list) / max(1, len(list))
    asked = sum(sum(t[60 * m:60 * (m + 1)]) for t in traces) / 60
    print(f"| {m + 1} | {asked:.0f} | {mean(within([(z['at_ms'] / 1000, z['devices']) for z in sizes])):.1f} | {mean(within(served)):.1f} |")
came = sum(s["requests"] for s in simulated["simulations"])
late = came - sum(s["completed"] for s in simulated["simulations"])
sent = sum(r["sent"] for r in results)
in_time = sum(r["attainment"] * r["sent"] for r in results)
print(f"\nnot in time: simulated {100 * late / came:.2f} % of {came}, served {100 * (1 - in_time / sent):.2f} % of {sent}")
least = min(results, key=lambda r: r["attainment"])
print(f"network with most losses: simulated {min(s['attainment'] for s in simulated['simulations']):.4f}, served {least['attainment']:.4f} ({least['service']})")

#!/usr/bin/env python3
"""Writes a cluster of many unlike networks on emulated devices.

    zoo.py FOLDER [--networks 37] [--devices 64] [--least 64] [--stretch 60] [--rate 250]

networks.csv lists the networks, with the time of a batch on an A100 as each·b + fixed and
the objective (Symphony, table 6). All times are stretched, so that a machine of few cores
can pass on the requests of many devices: rates are divided by as much. Some of the
networks are taken evenly from the list. Their rates are equal.
"""
import argparse, csv, os


def networks(count):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks.csv")) as f:
        rows = list(csv.DictReader(f))
    return [rows[i * len(rows) // count] for i in range(count)]


def write(folder, count, devices, least, stretch, rate, traces=None):
    """Writes the declaration and its profiles. Traces are files by network, whose mean rates
    go before the rate, which is of all together."""
    os.makedirs(os.path.join(folder, "profiles"), exist_ok=True)
    names, blocks = [], []
    for n in networks(count):
        name = n["network"].lower()
        each, fixed, slo = (float(n[k]) * stretch for k in ("each_ms", "fixed_ms", "slo_ms"))
        most = max(1, int((slo - fixed) / each))
        with open(os.path.join(folder, "profiles", name + ".csv"), "w") as f:
            f.write("hardware,batch,duration_ms\n")
            for b in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
                if b <= most:
                    f.write(f"a100,{b},{each * b + fixed:.6f}\n")
        arrivals, own = "poisson", (rate or 0) / count
        if traces:
            with open(traces[name]) as f:
                counts = [float(line) for line in f]
            arrivals, own = f"trace:{traces[name]}", sum(counts) / len(counts)
        blocks.append(f"""
pipeline "{name}" {{
  slo        = "{slo:g}ms"
  rate       = {own:.6g}
  arrivals   = "{arrivals}"
  attainment = 0.99

  input "x" {{
    datatype = "FP32"
    shape    = [1]
  }}

  module "model" {{
    engine  = "emulated"
    profile = "profiles/{name}.csv"
    inputs  = {{ x = input.x }}
  }}

  output "y" {{ value = module.model.y }}
}}
""")
        names.append(f'"{name}"')
    with open(os.path.join(folder, "cluster.hcl"), "w") as f:
        f.write(f"""hardware "a100" {{
  price = 4.1
  count = {devices}
}}

cluster "zoo" {{
  hardware  = "a100"
  devices   = {{ min = {least}, max = {devices} }}
  pipelines = [{", ".join(names)}]
}}
""" + "".join(blocks))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--networks", type=int, default=37)
    p.add_argument("--devices", type=int, default=64)
    p.add_argument("--least", type=int, default=64)
    p.add_argument("--stretch", type=float, default=60)
    p.add_argument("--rate", type=float, default=250)
    a = p.parse_args()
    write(a.folder, a.networks, a.devices, a.least, a.stretch, a.rate)

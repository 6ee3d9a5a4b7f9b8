"""Two stand-ins for a small network: one waits for a device, as most small networks on a GPU do, one takes a core."""

import os
import sys
import time

from harpagon_engine import Model, serve


class Network(Model):
    inputs = [("x", "FP32", [-1, 4])]
    outputs = [("y", "FP32", [-1, 4]), ("program", "INT64", [-1, 1])]

    def infer(self, batch):
        if sys.argv[1:] == ["waits"]:
            time.sleep(0.020 + 0.002 * batch.rows)
        else:
            multiply(48 + 4 * batch.rows)
        y = batch.output("y", (batch.rows, 4))
        y.data[:] = batch["x"].data
        return {"y": y, "program": ([batch.rows, 1], [os.getpid()] * batch.rows)}


def multiply(n):
    a = [[float(i * j % 7) for j in range(n)] for i in range(n)]
    b = list(zip(*a))
    return [[sum(map(float.__mul__, row, column)) for column in b] for row in a]


if __name__ == "__main__":
    serve(Network())

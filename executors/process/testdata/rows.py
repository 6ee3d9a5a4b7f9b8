"""Answers with the sum of each row's bytes and the number of the process; the first byte may do harm."""

import os
import sys
import time

import harpagon_engine


class Rows(harpagon_engine.Model):
    inputs = [("x", "UINT8", [-1, -1])]
    outputs = [("sum", "INT64", [-1, 2]), ("echo", "UINT8", [-1, -1]), ("name", "BYTES", [-1, 1])]

    def infer(self, batch):
        x = batch["x"]
        n, width = x.shape
        rows = [x.data[i * width:(i + 1) * width] for i in range(n)]
        for row in rows:
            harm = row[0] if width else 0
            if harm == 255:
                print("fatal: the GPU has gone", file=sys.stderr, flush=True)
                os._exit(7)
            if harm == 254:
                time.sleep(3600)
            if harm == 253:
                raise harpagon_engine.Invalid("a row that cannot be computed")
            if harm == 252:
                raise RuntimeError("CUDA out of memory")
        if n > int(os.environ.get("HARPAGON_TEST_FITS", n)):
            raise RuntimeError("CUDA out of memory at %d" % n)
        out = batch.output("sum", [n, 2])
        if os.environ.get("HARPAGON_TEST_PLACED"):
            numbers = out.data.cast("q")
            for i, row in enumerate(rows):
                numbers[2 * i], numbers[2 * i + 1] = sum(row), os.getpid()
        else:
            out = ([n, 2], [v for row in rows for v in (sum(row), os.getpid())])
        return {"sum": out, "echo": x, "name": ([n, 1], ["row%d" % len(r) for r in rows])}


harpagon_engine.serve(Rows())

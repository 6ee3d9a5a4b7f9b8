"""Tells kinds of flowers apart by four measures, in plain Python: a linear layer
and a softmax. It stands for whatever your own model is."""

import math

from harpagon_engine import Model, serve

KINDS = ["short", "middling", "long"]
WEIGHTS = [[0.8, 1.6, -2.4, -1.1], [0.5, -0.4, 0.2, -0.9], [-1.3, -1.2, 2.2, 2.0]]
BIAS = [0.6, 1.8, -2.4]


class Flowers(Model):
    inputs = [("features", "FP32", [-1, 4])]
    outputs = [("label", "BYTES", [-1, 1]), ("scores", "FP32", [-1, 3])]

    def infer(self, batch):
        x = batch["features"].values()
        labels, scores = [], []
        for row in range(batch.rows):
            v = x[4 * row:4 * row + 4]
            z = [sum(w * a for w, a in zip(weights, v)) + b for weights, b in zip(WEIGHTS, BIAS)]
            top = max(z)
            e = [math.exp(a - top) for a in z]
            p = [a / sum(e) for a in e]
            labels.append(KINDS[p.index(max(p))])
            scores += p
        return {"label": ([batch.rows, 1], labels), "scores": ([batch.rows, 3], scores)}


if __name__ == "__main__":
    serve(Flowers())

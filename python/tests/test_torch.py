import io
import contextlib
import unittest

from harpagon_engine._tensors import Batch, Port, Tensor, pack

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is missing")

from harpagon_engine.torch import Graph, Network, padded, sizes_of


class Scale(Network):
    inputs = [("x", "FP32", [-1, 2])]
    outputs = [("y", "FP64", [-1, 2])]

    def build(self, path):
        return torch.nn.Linear(2, 2)

    def forward(self, net, x):
        return 3 * x


class Captures(Scale):
    """Stands in for a GPU: what a graph would do, done to the same memory."""

    def _captures(self):
        return True

    def _capture(self, inputs):
        if getattr(self, "fails", None):
            raise RuntimeError(self.fails)
        outputs = self._named(self.forward(self.net, **inputs))

        def replay():
            self.replayed = self.replayed + [inputs["x"].shape[0]]
            for name, y in self._named(self.forward(self.net, **inputs)).items():
                outputs[name].copy_(y)
        self.replayed = getattr(self, "replayed", [])
        return Graph(inputs, outputs, replay)


def batch(rows, width=2):
    values = [float(i + 1) for i in range(rows * width)]
    x = Tensor("x", "FP32", [rows, width], memoryview(bytearray(pack("FP32", values))))
    return Batch({"x": x}, {"y": Port("y", "FP64", [-1, 2])}, {}), [3 * v for v in values]


class Networks(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(sizes_of({"HARPAGON_BATCHES": "8,1,4", "HARPAGON_MAX_BATCH": "8"}), [1, 4, 8])
        self.assertEqual(sizes_of({}), [1])
        self.assertEqual([padded(n, [1, 4, 8]) for n in (1, 2, 4, 5, 8, 9)], [1, 4, 4, 8, 8, None])

    def run_on(self, net, sizes=(1, 4, 8)):
        net.load("", "cpu")
        net.sizes = list(sizes)
        for rows in (1, 3, 2, 8, 5, 4, 9):
            b, want = batch(rows)
            answers = net.infer(b)
            self.assertEqual(b.answer("y", answers["y"]).values(), want)
            self.assertEqual(answers["y"].shape, [rows, 2])

    def test_eager(self):
        self.run_on(Scale())

    def test_graphs_are_padded(self):
        net = Captures()
        self.run_on(net)
        self.assertEqual(net.replayed, [1, 4, 4, 8, 8, 4], "the last is larger than all, and eager")

    def test_what_cannot_be_captured_is_eager(self):
        net, said = Captures(), io.StringIO()
        net.fails = "an operation looks at values"
        with contextlib.redirect_stderr(said):
            self.run_on(net)
        self.assertIn("batches of 4 run eagerly, because no graph can be made: an operation looks at values", said.getvalue())
        net.fails = "CUDA out of memory"
        net.captured.clear()
        with contextlib.redirect_stderr(said), self.assertRaises(RuntimeError):
            net.infer(batch(2)[0])

    def test_half_is_of_gpus(self):
        net = Scale()
        net.half = True
        net.load("", "cpu")
        self.assertIs(net.dtype, torch.float32)


if __name__ == "__main__":
    unittest.main()

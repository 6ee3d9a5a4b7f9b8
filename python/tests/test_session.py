"""What a model keeps of a stream."""

import json
import unittest

from harpagon_engine import Session
from harpagon_engine._session import NAME
from harpagon_engine._tensors import Batch, Port, Tensor, pack

try:
    import numpy
except ImportError:
    numpy = None


class Sessions(unittest.TestCase):
    def test_comes_back_as_it_went(self):
        s = Session(seen=3, names=["a", None, True, 1.5], of={"x": {"y": 2}}, raw=b"\x00\xff")
        self.assertEqual(Session.read(s.text()), s)
        self.assertEqual(Session.read(""), {})
        self.assertTrue(s.text().isascii())

    @unittest.skipIf(numpy is None, "numpy is missing")
    def test_arrays(self):
        s = Session(a=numpy.arange(6, dtype="float32").reshape(2, 3), b=numpy.zeros((0, 4), dtype="int64"), of=[numpy.array(7, dtype="uint8")])
        back = Session.read(s.text())
        for a, b in ((s["a"], back["a"]), (s["b"], back["b"]), (s["of"][0], back["of"][0])):
            self.assertEqual((a.dtype, a.shape, a.tolist()), (b.dtype, b.shape, b.tolist()))
        back["a"][0, 0] = 1  # it is the model's own
        with self.assertRaisesRegex(TypeError, "no ndarray"):
            Session(a=numpy.array([object()])).text()
        with self.assertRaises((ValueError, TypeError)):
            Session.read('{"a":{"__array__":["|O",[1],"AAAAAAAAAAA="]}}')

    def test_what_cannot_be_kept(self):
        with self.assertRaisesRegex(TypeError, "keeps JSON, bytes and numpy arrays of numbers, and no object"):
            Session(a=object()).text()
        for of in ({7: "x"}, {"a": [{7: "x"}]}, {"a": {None: 1}}):
            with self.assertRaisesRegex(TypeError, "is no text"):
                Session(of).text()

    def test_each_row_has_its_own(self):
        texts = [Session(n=1).text(), ""]
        port = Port(NAME, "BYTES", [-1, 1])
        data = memoryview(bytearray(pack("BYTES", texts)))
        batch = Batch({"x": Tensor("x", "FP32", [2], memoryview(bytearray(8))), NAME: Tensor(NAME, "BYTES", [2, 1], data)}, {NAME: port}, {})
        self.assertEqual(list(batch), ["x"])
        for s in batch.sessions:
            s["n"] = s.get("n", 0) + 1
        kept = batch.answer(NAME, batch.kept()[NAME])
        self.assertEqual([json.loads(v) for v in kept.values()], [{"n": 2}, {"n": 1}])
        with self.assertRaises(TypeError):
            batch.sessions[0] = batch.sessions[1]  # nobody answers for the stream of another
        with self.assertRaises(AttributeError):
            batch.sessions = list(batch.sessions)
        self.assertEqual(Batch({"x": Tensor("x", "FP32", [0], memoryview(b""))}, {}, {}).kept(), {})


if __name__ == "__main__":
    unittest.main()

import array
import struct
import unittest

from harpagon_engine._tensors import Batch, Invalid, Port, Tensor, pack

try:
    import numpy
except ImportError:
    numpy = None


def tensor(datatype, shape, values):
    return Tensor("x", datatype, shape, memoryview(bytearray(pack(datatype, values))))


class Views(unittest.TestCase):
    def test_values(self):
        for datatype, values in (("BOOL", [True, False]), ("INT8", [-1, 2]), ("UINT64", [1, 2 ** 63]), ("FP16", [0.5, -2.0]),
                                 ("FP32", [1.5, -2.0]), ("FP64", [0.1, 3.0]), ("BYTES", ["", "ä b"])):
            t = tensor(datatype, [2, 1], values)
            self.assertEqual(t.values(), values, datatype)
            if datatype not in ("BYTES", "FP16"):
                self.assertEqual(t.view().tolist(), [[v] for v in values])

    def test_views_are_the_memory(self):
        t = tensor("FP32", [2, 2], [1, 2, 3, 4])
        t.view()[1, 1] = 9
        self.assertEqual(t.values(), [1, 2, 3, 9])
        if numpy:
            t.numpy()[0, 0] = 7
            self.assertEqual(t.values(), [7, 2, 3, 9])

    def test_texts_that_end_too_soon(self):
        for raw in (b"\1", b"\5\0\0\0abc"):
            with self.assertRaises(Invalid):
                Tensor("x", "BYTES", [1], memoryview(raw)).values()

    def test_what_has_no_numbers(self):
        with self.assertRaises(TypeError):
            tensor("BYTES", [1], ["a"]).view()
        with self.assertRaises(TypeError):
            Tensor("x", "BF16", [1], memoryview(b"\0\0")).values()


class Answers(unittest.TestCase):
    def answer(self, datatype, shape, value, place=None):
        batch = Batch({"x": tensor("FP32", [2, 1], [1, 2])}, {"y": Port("y", datatype, shape)}, {} if place is None else {"y": memoryview(place)})
        self.assertEqual(batch.rows, 2)
        return batch.answer("y", value(batch) if callable(value) else value)

    def test_kinds(self):
        want = struct.pack("<2f", 3, 4)
        kinds = [([2, 1], [3, 4]), ([2, 1], want), memoryview(array.array("f", [3, 4])).cast("B").cast("f", [2, 1])]
        if numpy:
            kinds += [numpy.array([[3], [4]], dtype="float32"), numpy.array([[3, 4]], dtype="float32").T]
        for value in kinds:
            for place in (None, bytearray(8), bytearray(64)):
                t = self.answer("FP32", [-1, 1], value, place)
                self.assertEqual((t.shape, bytes(t.data)), ([2, 1], want))
                if place is not None:
                    self.assertEqual(place[:8], want)

    def test_computed_into_its_place(self):
        def value(batch):
            out = batch.output("y", [2, 1])
            out.view()[1, 0] = 5
            return out
        place = bytearray(8)
        self.answer("FP32", [-1, 1], value, place)
        self.assertEqual(struct.unpack("<2f", place), (0, 5))

    def test_texts(self):
        self.assertEqual(self.answer("BYTES", [-1, 1], ([2, 1], ["a", "bc"])).values(), ["a", "bc"])
        if numpy:
            self.assertEqual(self.answer("BYTES", [-1, 1], numpy.array([["a"], ["bc"]])).values(), ["a", "bc"])

    def test_what_does_not_fit(self):
        wrong = [([2, 2], [1, 2, 3, 4]), ([2, 1], [1]), [1, 2], b"12345678", None, 3, {}, (1, 2, 3)]
        if numpy:
            wrong += [numpy.zeros((2, 1)), numpy.zeros((2, 1), dtype="int32"), numpy.zeros(2, dtype="float32")]
        for value in wrong:
            with self.assertRaises(ValueError, msg=repr(value)):
                self.answer("FP32", [-1, 1], value)


if __name__ == "__main__":
    unittest.main()

import json
import os
import tempfile
import unittest

from harpagon_engine._tensors import Batch, Port, Tensor, pack

try:
    from harpagon_engine import triton
except ImportError:  # without numpy
    triton = None

CODE = """
import json
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        out = pb_utils.get_output_config_by_name(self.config, "y")
        self.kind = pb_utils.triton_string_to_numpy(out["data_type"])
        self.version = args["model_version"]

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            if x.sum() < 0:
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError("below zero")))
                continue
            names = pb_utils.get_input_tensor_by_name(request, "names").as_numpy()
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("y", (2 * x).astype(self.kind)),
                pb_utils.Tensor("greeting", names + b", " + self.version.encode()),
            ]))
        return responses
"""

CONFIG = {
    "name": "double", "max_batch_size": 8,
    "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["2"]}, {"name": "names", "data_type": "TYPE_STRING", "dims": ["1"]},
              {"name": "seed", "data_type": "TYPE_INT64", "dims": ["1"], "optional": True}],
    "output": [{"name": "y", "data_type": "TYPE_INT32", "dims": ["2"]}, {"name": "greeting", "data_type": "TYPE_STRING", "dims": ["1"]}],
}


@unittest.skipIf(triton is None, "numpy is missing")
class TritonModels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        version = os.path.join(self.folder.name, "double", "3")
        os.makedirs(version)
        self.path, settings = os.path.join(version, "model.py"), os.path.join(self.folder.name, "double.json")
        with open(self.path, "w") as f:
            f.write(CODE)
        with open(settings, "w") as f:
            json.dump(CONFIG, f)
        self.model = triton._Adapter(settings, self.path)
        self.model.load("", "cpu")

    def batch(self, numbers):
        tensors = {
            "x": Tensor("x", "FP32", [2, 2], memoryview(pack("FP32", numbers))),
            "names": Tensor("names", "BYTES", [2, 1], memoryview(pack("BYTES", [b"\xff", b"b"]))),
        }
        return Batch(tensors, {n: Port(n, k, s) for n, k, s in self.model.outputs}, {})

    def test_a_batch_is_a_request(self):
        self.assertEqual([("x", "FP32", [-1, 2]), ("names", "BYTES", [-1, 1])], self.model.inputs)
        batch = self.batch([1, 2, 3, 4])
        out = self.model.infer(batch)
        self.assertEqual([2, 4, 6, 8], batch.answer("y", out["y"]).values())
        self.assertEqual(pack("BYTES", [b"\xff, 3", b"b, 3"]), bytes(batch.answer("greeting", out["greeting"]).data))

    def test_errors_are_raised(self):
        with self.assertRaisesRegex(RuntimeError, "below zero"):
            self.model.infer(self.batch([-1, 0, 0, 0]))

    def test_other_models_are_not_called(self):
        with self.assertRaisesRegex(triton.TritonModelException, "another model"):
            triton.InferenceRequest(model_name="other", requested_output_names=[], inputs=[])

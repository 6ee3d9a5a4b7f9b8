"""Serves a model of yours in Python as a module of a Harpagon pipeline.

    from harpagon_engine import Model, serve

    class Double(Model):
        inputs = [("x", "FP32", [-1, 4])]       # name, datatype, shape; the first dimension is the batch
        outputs = [("y", "FP32", [-1, 4])]

        def load(self, path, device):           # once; path of the declared model, "cpu" or "cuda"
            self.factor = 2

        def infer(self, batch):                 # of every batch, always by the same thread
            return {"y": self.factor * batch["x"].numpy()}

    if __name__ == "__main__":
        serve(Double())

A model that keeps something between the frames of a stream, such as a tracker, has state = True, and
with every batch the sessions of its rows:

        def infer(self, batch):
            for session, boxes in zip(batch.sessions, batch["boxes"].numpy()):
                session["seen"] = session.get("seen", 0) + len(boxes)

The standard library is all that it needs; tensors are views of memory that the executor
shares with this process, as memoryview, numpy array or PyTorch tensor. Harpagon puts the
package on PYTHONPATH of the commands that it starts. Module harpagon_engine.torch helps
with PyTorch on a GPU.
"""

from ._model import Model
from ._server import serve
from ._session import Session
from ._tensors import Batch, Invalid, Tensor

__all__ = ["Batch", "Invalid", "Model", "Session", "Tensor", "serve"]

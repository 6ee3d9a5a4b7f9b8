"""Networks of PyTorch, on a GPU where the device is one.

    import torch
    from harpagon_engine import serve
    from harpagon_engine.torch import Network

    class Classify(Network):
        inputs = [("image", "UINT8", [-1, 3, 224, 224])]
        outputs = [("scores", "FP32", [-1, 1000])]
        half = True                              # on a GPU

        def build(self, path):
            net = torchvision.models.resnet50()
            net.load_state_dict(torch.load(path))
            return net

        def forward(self, net, image):           # tensors on the device, by the names of inputs
            return net(image.to(self.dtype) / 255).softmax(1)

    serve(Classify())

On a GPU tensors are copied there, from pinned memory, while the batch before is computed; the
network is replayed as a CUDA graph of the next of the batch sizes that Harpagon uses, and
eagerly where it cannot be captured. On cores it runs eagerly.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import torch

from ._model import Model
from ._tensors import TORCH, Batch


class Graph(NamedTuple):
    """A forward pass of one batch size, captured: inputs are copied in, outputs read after replay."""

    inputs: Mapping[str, torch.Tensor]
    outputs: Mapping[str, torch.Tensor]
    replay: Callable[[], Any]


def sizes_of(environ: Mapping[str, str]) -> list[int]:
    """The batch sizes that Harpagon uses, rising."""
    named = [int(n) for n in environ.get("HARPAGON_BATCHES", "").split(",") if n]
    return sorted({*named, max(int(environ.get("HARPAGON_MAX_BATCH", "1")), 1)})


def padded(rows: int, sizes: Sequence[int]) -> int | None:
    """The least of the sizes that holds the rows."""
    return next((n for n in sizes if n >= rows), None)


class Network(Model):
    """A torch.nn.Module. build and forward are needed, beside inputs and outputs."""

    half = False  #: weights, and self.dtype, are of half precision on a GPU
    compiled = False  #: torch.compile, where this PyTorch has it; its first runs take long
    graphs = True  #: CUDA graphs on a GPU; set it False where shapes vary or forward looks at values

    def build(self, path: str) -> torch.nn.Module:
        """The network with its weights."""
        raise NotImplementedError

    def forward(self, net: Callable[..., Any], **inputs: torch.Tensor) -> Any:
        """Computes a batch on the device: a tensor, or several by the names of outputs. Results
        of other datatypes than declared are converted."""
        return net(*inputs.values())

    # What follows is the same for all networks.

    def load(self, path: str, device: str) -> None:
        self.device = torch.device(device)
        self.gpu = self.device.type == "cuda"
        self.dtype = torch.float16 if self.half and self.gpu else torch.float32
        self.sizes = sizes_of(os.environ)
        self.captured: dict[int, Graph | None] = {}
        net: Any = self.build(path).to(self.device).eval()
        if self.dtype is torch.float16:
            net = net.half()
        if self.compiled and hasattr(torch, "compile"):
            net = torch.compile(net)
        self.net = net
        if self.gpu:
            torch.backends.cudnn.benchmark = True
            self.copies = torch.cuda.Stream()

    def prepare(self, batch: Batch) -> None:
        if self.gpu:
            with torch.cuda.stream(self.copies):
                there = {name: t.torch().to(self.device, non_blocking=True) for name, t in batch.items()}
                done = torch.cuda.Event()
                done.record()
            batch.prepared = there, done

    def infer(self, batch: Batch) -> Mapping[str, Any]:
        with torch.inference_mode():
            if not self.gpu:
                there = {name: t.torch() for name, t in batch.items()}
            else:
                there, done = batch.prepared
                torch.cuda.current_stream().wait_event(done)
                for t in there.values():
                    t.record_stream(torch.cuda.current_stream())
            made = self._run(batch.rows, there)
            answers = {}
            for name, y in made.items():
                answers[name] = batch.output(name, y.shape)
                answers[name].torch().copy_(y, non_blocking=True)
            if self.gpu:
                torch.cuda.current_stream().synchronize()
        return answers

    def _run(self, rows: int, there: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        size = padded(rows, self.sizes) if self.graphs and self._captures() else None
        if size is not None and size not in self.captured:
            self.captured[size] = self._try(size, there)
        graph = self.captured.get(size) if size is not None else None
        if graph is None or any(graph.inputs[name].shape[1:] != t.shape[1:] for name, t in there.items()):
            return self._named(self.forward(self.net, **there))
        for name, t in there.items():
            graph.inputs[name][:rows].copy_(t, non_blocking=True)
        graph.replay()
        return {name: y[:rows] for name, y in graph.outputs.items()}

    def _captures(self) -> bool:
        return self.gpu

    def _try(self, size: int, like: Mapping[str, torch.Tensor]) -> Graph | None:
        inputs = {name: torch.zeros((size, *t.shape[1:]), dtype=t.dtype, device=self.device) for name, t in like.items()}
        try:
            return self._capture(inputs)
        except Exception as e:
            print("batches of %d run eagerly, because no graph can be made: %s" % (size, e), file=sys.stderr, flush=True)
            if "out of memory" in str(e):
                raise
            return None

    def _capture(self, inputs: Mapping[str, torch.Tensor]) -> Graph:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # libraries choose what they run, outside of the graph
                self._named(self.forward(self.net, **inputs))
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self._named(self.forward(self.net, **inputs))
        return Graph(inputs, outputs, graph.replay)

    def _named(self, made: Any) -> Mapping[str, torch.Tensor]:
        """Outputs by name, of their declared datatypes."""
        if isinstance(made, torch.Tensor):
            made = {self.outputs[0][0]: made}
        return {name: made[name].to(getattr(torch, TORCH[datatype])).contiguous() for name, datatype, _ in self.outputs}

    def memory(self) -> int:
        if not getattr(self, "gpu", False):
            return super().memory()
        return int(torch.cuda.max_memory_reserved(self.device))

    def region_added(self, region: memoryview) -> None:
        if self.gpu:
            t = torch.frombuffer(region, dtype=torch.uint8)
            _check(torch.cuda.cudart().cudaHostRegister(t.data_ptr(), t.numel(), 0), "pinned")

    def region_removed(self, region: memoryview) -> None:
        if self.gpu:
            _check(torch.cuda.cudart().cudaHostUnregister(torch.frombuffer(region, dtype=torch.uint8).data_ptr()), "let go")


def _check(error: Any, what: str) -> None:
    """Memory that is not pinned is copied from more slowly, and that is all."""
    if int(error) != 0:
        print("shared memory could not be %s: error %d of CUDA" % (what, int(error)), file=sys.stderr, flush=True)

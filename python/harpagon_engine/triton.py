"""Runs a model of Triton's Python backend as the command of a module, its file as it is:

    python3 -m harpagon_engine.triton SETTINGS MODEL

SETTINGS is its configuration as JSON, which harpagon import writes, and MODEL its model.py, which
finds this module as triton_python_backend_utils. A batch is one request to it, with as many rows.
What asks for other models (BLS), answers several times (decoupled) or keeps tensors on a device
is not there. It needs numpy.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import sys
from typing import Any, Sequence

import numpy

from ._model import Model
from ._server import serve
from ._tensors import NUMPY, Batch
from ._tensors import Tensor as _Tensor

_BYTES = "BYTES"


class TritonModelException(Exception):
    """What a model raises."""


class TritonError(Exception):
    """Why a request failed, in its response."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self._code = code

    def message(self) -> str:
        return str(self)

    def code(self) -> int:
        return self._code


class Tensor:
    """A named numpy array."""

    def __init__(self, name: str, array: Any) -> None:
        self._name, self._array = name, numpy.asarray(array)

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._array

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def is_cpu(self) -> bool:
        return True

    def to_dlpack(self) -> Any:
        return self._array.__dlpack__()

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> "Tensor":
        return Tensor(name, tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else numpy.from_dlpack(tensor))


class InferenceRequest:
    """A batch, as a model is given it."""

    def __init__(self, inputs: Sequence[Tensor] = (), requested_output_names: Sequence[str] = (), **others: Any) -> None:
        if "model_name" in others:
            raise TritonModelException("this calls another model; make that a module of the pipeline, or leave both with Triton")
        self._inputs, self._wanted = list(inputs), list(requested_output_names)

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def requested_output_names(self) -> list[str]:
        return self._wanted

    def request_id(self) -> str:
        return ""

    def correlation_id(self) -> int:
        return 0

    def parameters(self) -> str:
        return "{}"

    def is_cancelled(self) -> bool:
        return False


class InferenceResponse:
    """What a model answers to one request."""

    def __init__(self, output_tensors: Sequence[Tensor] = (), error: Any = None) -> None:
        self._outputs, self._error = list(output_tensors), error

    def output_tensors(self) -> list[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> Any:
        return self._error


class Logger:
    """Writes to standard error, which is in engines.log."""

    @staticmethod
    def log(message: str, level: Any = None) -> None:
        print(message, file=sys.stderr, flush=True)

    log_info = log_warn = log_error = log_verbose = log


def get_input_tensor_by_name(request: InferenceRequest, name: str) -> Any:
    return next((t for t in request.inputs() if t.name() == name), None)


def get_output_tensor_by_name(response: InferenceResponse, name: str) -> Any:
    return next((t for t in response.output_tensors() if t.name() == name), None)


def get_input_config_by_name(config: dict[str, Any], name: str) -> Any:
    return next((p for p in config.get("input", []) if p["name"] == name), None)


def get_output_config_by_name(config: dict[str, Any], name: str) -> Any:
    return next((p for p in config.get("output", []) if p["name"] == name), None)


def using_decoupled_model_transaction_policy(config: dict[str, Any]) -> bool:
    return bool((config.get("model_transaction_policy") or {}).get("decoupled"))


def triton_string_to_numpy(name: str) -> Any:
    kind = _datatype(name)
    return numpy.object_ if kind == _BYTES else numpy.dtype(NUMPY[kind]).type


def _datatype(name: str) -> str:
    kind = name[len("TYPE_"):] if name.startswith("TYPE_") else name
    return _BYTES if kind == "STRING" else kind


def _texts(tensor: _Tensor) -> list[bytes]:
    texts, at = [], 0
    while at < len(tensor.data):
        (size,) = struct.unpack_from("<I", tensor.data, at)
        texts.append(bytes(tensor.data[at + 4:at + 4 + size]))
        at += 4 + size
    return texts


class _Adapter(Model):
    """The model in the file, by its configuration."""

    def __init__(self, settings: str, path: str) -> None:
        with open(settings) as f:
            self._config = json.load(f)
        self._path = path
        for port in self._config.get("input", []) + self._config.get("output", []):
            port["dims"] = [int(d) for d in port.get("dims", [])]  # 64-bit numbers are texts in JSON of protocol buffers
        batch = [-1] if self._config.get("max_batch_size", 0) > 0 else []
        self.inputs, self.outputs = (
            [(p["name"], _datatype(p["data_type"]), batch + p["dims"]) for p in self._config.get(kind, []) if not p.get("optional")]
            for kind in ("input", "output"))

    def load(self, path: str, device: str) -> None:
        version = os.path.dirname(os.path.abspath(self._path))
        sys.modules["triton_python_backend_utils"] = sys.modules[__name__]
        sys.path.insert(0, version)
        spec = importlib.util.spec_from_file_location("model", self._path)
        if spec is None or spec.loader is None:
            raise RuntimeError("%s is no file in Python" % self._path)
        code = importlib.util.module_from_spec(spec)
        sys.modules["model"] = code
        spec.loader.exec_module(code)
        self._model = code.TritonPythonModel()
        if hasattr(self._model, "initialize"):
            self._model.initialize({
                "model_config": json.dumps(self._config), "model_name": self._config.get("name", ""),
                "model_instance_name": self._config.get("name", "") + "_0", "model_instance_device_id": "0",
                "model_instance_kind": "GPU" if device == "cuda" else "CPU",
                "model_repository": os.path.dirname(version), "model_version": os.path.basename(version),
            })

    def infer(self, batch: Batch) -> dict[str, Any]:
        inputs = []
        for name, kind, _ in self.inputs:
            if kind == _BYTES:
                array = numpy.empty(len(_texts(batch[name])), dtype=object)
                array[:] = _texts(batch[name])
                inputs.append(Tensor(name, array.reshape(batch[name].shape)))
            else:
                inputs.append(Tensor(name, batch[name].numpy()))
        responses = self._model.execute([InferenceRequest(inputs, [name for name, _, _ in self.outputs])])
        if not responses or responses[0] is None:
            raise RuntimeError("execute returned no response")
        if responses[0].has_error():
            error = responses[0].error()
            raise RuntimeError(error.message() if hasattr(error, "message") else str(error))
        kinds = {name: kind for name, kind, _ in self.outputs}
        return {t.name(): _plain(t.as_numpy(), kinds[t.name()]) for t in responses[0].output_tensors() if t.name() in kinds}

    def close(self) -> None:
        if hasattr(self._model, "finalize"):
            self._model.finalize()


def _plain(array: Any, kind: str) -> Any:
    if kind != _BYTES:
        return numpy.ascontiguousarray(array)
    return list(array.shape), [t if isinstance(t, bytes) else str(t).encode() for t in array.ravel().tolist()]


if __name__ == "__main__":
    serve(_Adapter(sys.argv[1], sys.argv[2]))

"""Tensors as views of the memory that they came in, and answers as bytes."""

from __future__ import annotations

import math
import struct
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ._session import NAME, Session

#: Formats of package struct by datatype. BF16 has none, and BYTES no fixed size.
FORMATS = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d",
}
SIZES = {name: struct.calcsize("=" + form) for name, form in FORMATS.items()} | {"BF16": 2}

#: Names of numpy and PyTorch.
NUMPY = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}
TORCH = {name: NUMPY[name] for name in NUMPY if name not in ("UINT16", "UINT32", "UINT64")} | {"BF16": "bfloat16"}


class Invalid(Exception):
    """The request is wrong; the caller is told why."""


class Port(NamedTuple):
    """An input or output of a model."""

    name: str
    datatype: str
    shape: list[int]

    def fits(self, datatype: str, shape: Sequence[int]) -> bool:
        return datatype == self.datatype and len(shape) == len(self.shape) and all(
            d in (-1, s) for d, s in zip(self.shape, shape))


class Tensor:
    """A tensor. data is its memory, little-endian; it is valid until the batch is answered."""

    __slots__ = ("name", "datatype", "shape", "data")

    def __init__(self, name: str, datatype: str, shape: Sequence[int], data: memoryview) -> None:
        self.name, self.datatype, self.shape, self.data = name, datatype, list(shape), data

    def view(self) -> memoryview:
        """The numbers, with their shape."""
        if self.datatype not in FORMATS or self.datatype == "FP16":
            raise TypeError("a memoryview has no numbers of %s as %r has them; take numpy(), torch(), data or values()" % (self.datatype, self.name))
        if 0 in self.shape:
            raise ValueError("%r is empty" % self.name)
        form = FORMATS[self.datatype]
        return self.data.cast(form, self.shape) if self.shape else self.data.cast(form)  # type: ignore[call-overload,no-any-return]

    def numpy(self) -> Any:
        """The same memory as an array; of texts an array of objects."""
        import numpy
        if self.datatype == "BYTES":
            return numpy.array(self.values(), dtype=object).reshape(self.shape)
        if self.datatype not in NUMPY:
            raise TypeError("numpy has no %s; use torch()" % self.datatype)
        return numpy.frombuffer(self.data, dtype=NUMPY[self.datatype]).reshape(self.shape)

    def torch(self) -> Any:
        """The same memory as a tensor of PyTorch."""
        import torch
        if self.datatype not in TORCH:
            raise TypeError("%s %r is nothing that PyTorch computes with" % (self.datatype, self.name))
        kind = getattr(torch, TORCH[self.datatype])
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=kind)
        return torch.frombuffer(self.data, dtype=kind).reshape(self.shape)

    def values(self) -> list[Any]:
        """The numbers or texts as a flat list."""
        if self.datatype != "BYTES":
            if self.datatype not in FORMATS:
                raise TypeError("%s %r has no format of numbers" % (self.datatype, self.name))
            return list(struct.unpack("<%d%s" % (len(self.data) // SIZES[self.datatype], FORMATS[self.datatype]), self.data))
        values, at = [], 0
        while at < len(self.data):
            if at + 4 > len(self.data):
                raise Invalid("%r ends within a length" % self.name)
            (size,) = struct.unpack_from("<I", self.data, at)
            if at + 4 + size > len(self.data):
                raise Invalid("%r ends within a text" % self.name)
            values.append(bytes(self.data[at + 4:at + 4 + size]).decode())
            at += 4 + size
        return values


def size_of(datatype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor; -1 of texts."""
    return -1 if datatype == "BYTES" else SIZES[datatype] * math.prod(shape)


def pack(datatype: str, values: Sequence[Any]) -> bytes:
    """A flat list to raw data."""
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(e)) + e for e in (v.encode() if isinstance(v, str) else bytes(v) for v in values))
    return struct.pack("<%d%s" % (len(values), FORMATS[datatype]), *values)


def flat(data: Any) -> list[Any]:
    """Nested lists to a flat one."""
    if not isinstance(data, (list, tuple)):
        return [data]
    if data and isinstance(data[0], (list, tuple)):
        return [v for row in data for v in flat(row)]
    return list(data)


class Batch(Mapping[str, Tensor]):
    """The tensors of a batch by name of the input."""

    def __init__(self, inputs: dict[str, Tensor], outputs: Mapping[str, Port], places: Mapping[str, memoryview]) -> None:
        self._inputs, self._outputs, self._places = inputs, outputs, places
        self._made: dict[str, Tensor] = {}
        self._sessions: tuple[Session, ...] = ()
        if NAME in outputs:
            self._sessions = tuple(Session.read(text) for text in inputs.pop(NAME).values())
        #: For what Model.prepare makes.
        self.prepared: Any = None

    def __getitem__(self, name: str) -> Tensor:
        return self._inputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Of a model that keeps state: what it keeps of the stream of each row. Each is its row's: what is in it
        changes, and none takes the place of another."""
        return self._sessions

    @property
    def rows(self) -> int:
        """How many requests the batch has: the first dimension of the first input."""
        first = next(iter(self._inputs.values()))
        return first.shape[0] if first.shape else 1

    def output(self, name: str, shape: Sequence[int]) -> Tensor:
        """Memory for an output, to be computed into and returned by infer: that from which
        the executor reads, where it has given any."""
        port = self._outputs[name]
        size = size_of(port.datatype, shape)
        if size < 0:
            raise TypeError("output %r is of texts, whose size nobody knows; return them" % name)
        place = self._places.get(name)
        if place is None or len(place) < size:
            place = memoryview(bytearray(size))
        self._made[name] = Tensor(name, port.datatype, shape, place[:size])
        return self._made[name]

    def kept(self) -> Mapping[str, Any]:
        """The sessions as they go back."""
        if NAME not in self._outputs:
            return {}
        return {NAME: ([len(self._sessions), 1], [s.text() for s in self._sessions])}

    def answer(self, name: str, value: Any) -> Tensor:
        """What infer returned for an output, in memory that outlives the batch or in its place."""
        port = self._outputs[name]
        if name in self._made and value is self._made[name]:
            return self._made[name]
        shape, data = _raw(port, value)
        if not port.fits(port.datatype, shape):
            raise ValueError("output %r has shape %s where %s is declared" % (name, list(shape), port.shape))
        size = size_of(port.datatype, shape)
        if size >= 0 and len(data) != size:
            raise ValueError("output %r has %d bytes where %s %s has %d" % (name, len(data), port.datatype, list(shape), size))
        place = self._places.get(name)
        if place is not None and len(data) <= len(place):
            place[:len(data)] = data
            data = place[:len(data)]
        return Tensor(name, port.datatype, shape, data)


def _raw(port: Port, value: Any) -> tuple[Sequence[int], memoryview]:
    """Shape and bytes of what infer returned."""
    if isinstance(value, Tensor):
        return value.shape, value.data
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError("output %r is a tuple of %d; return (shape, values)" % (port.name, len(value)))
        shape, values = value
        if isinstance(values, (bytes, bytearray, memoryview)):
            return shape, memoryview(values).cast("B")
        return shape, memoryview(pack(port.datatype, flat(values)))
    if hasattr(value, "detach"):  # of PyTorch
        value = value.detach().cpu().contiguous()
        if str(value.dtype) == "torch.bfloat16":
            if port.datatype != "BF16":
                raise ValueError("output %r is BF16 where %s is declared" % (port.name, port.datatype))
            return list(value.shape), memoryview(value.view(getattr(__import__("torch"), "int16")).numpy()).cast("B")
        value = value.numpy()
    if port.datatype == "BYTES" and hasattr(value, "tolist"):
        return value.shape, memoryview(pack(port.datatype, flat(value.tolist())))
    if isinstance(value, (list, bytes, bytearray)):
        raise ValueError("output %r is a %s, which has no shape; return (shape, values)" % (port.name, type(value).__name__))
    try:
        view = memoryview(value)
    except TypeError:
        raise ValueError("output %r is a %s; return an array, a tensor or (shape, values)" % (port.name, type(value).__name__))
    shape = view.shape or ()
    if view.itemsize != SIZES.get(port.datatype) or not _like(view.format, FORMATS.get(port.datatype, "")):
        raise ValueError("output %r is of format %r with %d bytes each where %s is declared" % (port.name, view.format, view.itemsize, port.datatype))
    if 0 in shape:
        return shape, memoryview(b"")
    return shape, (view if view.c_contiguous else memoryview(view.tobytes())).cast("B")


def _like(form: str, want: str) -> bool:
    """Whether formats of one size are of the same kind: the names of integers differ by machine."""
    def kind(c: str) -> str:
        return next((k for k in ("bhilqn", "BHILQN", "efd", "?") if c in k), c)
    return kind(form.lstrip("@=<")) == kind(want)

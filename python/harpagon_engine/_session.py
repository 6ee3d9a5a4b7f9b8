"""What a model keeps of one stream between its frames."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict

#: The tensor in which sessions come and go.
NAME = "harpagon_session"

#: How arrays and bytes are told from objects.
ARRAY, BYTES = "__array__", "__bytes__"


class Session(Dict[str, Any]):
    """Names with what is kept under them: None, booleans, numbers, texts, lists and dictionaries of these,
    bytes, and numpy arrays of numbers. It is empty with the first frame of a stream, goes back with the answer
    of each frame, and comes with the next, in whatever process computes that: keep everything here, and nothing of
    a stream elsewhere. Keys are texts. As it travels, in JSON with arrays and bytes in base64, it may have 1 MiB;
    a frame that leaves more fails. A frame that fails leaves it as it was."""

    @classmethod
    def read(cls, text: str) -> Session:
        return cls(json.loads(text, object_hook=_read) if text else {})

    def text(self) -> str:
        _check(self)
        return json.dumps(self, default=_write, separators=(",", ":"))


def _check(value: Any) -> None:
    """JSON would turn other keys into texts, which nobody finds again."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError("a session keeps what it has by texts, and %r is no text; write str(...)" % (key,))
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for of in value:
        _check(of)


def _write(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {BYTES: base64.b64encode(value).decode()}
    dtype = getattr(value, "dtype", None)
    if dtype is None or not hasattr(value, "tobytes") or getattr(dtype, "kind", "O") not in "biufc":
        raise TypeError("a session keeps JSON, bytes and numpy arrays of numbers, and no %s" % type(value).__name__)
    return {ARRAY: [dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]}


def _read(value: Dict[str, Any]) -> Any:
    if len(value) != 1:
        return value
    if BYTES in value:
        return base64.b64decode(value[BYTES])
    if ARRAY in value:
        import numpy
        dtype, shape, data = value[ARRAY]
        kind = numpy.dtype(dtype)
        if kind.kind not in "biufc":
            raise ValueError("an array of %s in a session" % dtype)
        return numpy.frombuffer(bytearray(base64.b64decode(data)), dtype=kind).reshape(shape)
    return value

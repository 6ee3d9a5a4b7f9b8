"""What a model keeps of one stream between its frames."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict

#: The tensor in which sessions come and go.
NAME = "harpagon_session"

#: Bytes that a session may have, as it travels: JSON, with arrays and bytes in base64.
MOST = 1 << 20

#: How arrays and bytes are told from objects.
ARRAY, BYTES = "__array__", "__bytes__"


class Session(Dict[str, Any]):
    """Names with what is kept under them: None, booleans, numbers, texts, lists and dictionaries of these,
    bytes, and numpy arrays of numbers. It is empty with the first frame of a stream, goes back with the answer
    of each frame, and comes with the next, in whatever process computes that: keep everything here, and nothing of
    a stream elsewhere. A frame that fails leaves it as it was."""

    @classmethod
    def read(cls, text: str) -> Session:
        return cls(json.loads(text, object_hook=_read) if text else {})

    def text(self) -> str:
        text = json.dumps(self, default=_write, separators=(",", ":"))
        if len(text) > MOST:
            raise ValueError("the session of a stream has %d bytes, and at most %d are kept; keep less" % (len(text), MOST))
        return text


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

#!/usr/bin/env python3
"""Asks a pipeline from Python, with numpy and nothing else.

    from client import Client
    with Client("127.0.0.1:8080") as pipelines:
        out = pipelines.infer("traffic", {"frame": frame}, timeout=0.4)
        print(out["vehicles"])

Tensors travel as binary data of the Open Inference Protocol, version 2. Any other
client of that protocol will do as well; this one shows how little it takes.
"""

import http.client
import json
import struct
import sys

import numpy as np

DATATYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}
NAMES = {np.dtype(t): name for name, t in DATATYPES.items()}
HEADER = "Inference-Header-Content-Length"


class InferenceError(Exception):
    """What the gateway says instead of an answer. code is one of invalid, not_found,
    overloaded, unavailable, deadline and internal; stage is the module at fault."""

    def __init__(self, status, body):
        super().__init__(body.get("error", f"HTTP status {status}"))
        self.status, self.code, self.stage = status, body.get("code"), body.get("stage")


class Client:
    """One connection; not for several threads at once. token is that of the gateway,
    and timeouts are in seconds."""

    def __init__(self, address, token=None, connect_timeout=10):
        self.connection = http.client.HTTPConnection(address, timeout=connect_timeout)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def infer(self, pipeline, inputs, timeout=None):
        """Answers {name: array} for inputs {name: array}. Arrays of str, bytes or
        object travel as BYTES and come back as arrays of bytes. The deadline is the
        pipeline's objective, or timeout if that is sooner."""
        head, parts = {"parameters": {"binary_data_output": True}, "inputs": []}, []
        if timeout is not None:
            head["parameters"]["timeout"] = int(timeout * 1e6)
        for name, array in inputs.items():
            datatype, data = encode(np.asarray(array))
            parts.append(data)
            head["inputs"].append({
                "name": name, "datatype": datatype, "shape": list(np.shape(array)),
                "parameters": {"binary_data_size": len(data)},
            })
        text = json.dumps(head).encode()
        headers = self.headers | {HEADER: str(len(text)), "Content-Type": "application/octet-stream"}
        self.connection.request("POST", f"/v2/models/{pipeline}/infer", b"".join([text, *parts]), headers)
        response = self.connection.getresponse()
        body = response.read()
        size = int(response.headers.get(HEADER, len(body)))
        try:
            head = json.loads(body[:size])
        except ValueError:
            head = {"error": body[:200].decode(errors="replace")}
        if response.status != 200:
            raise InferenceError(response.status, head)
        return {o["name"]: array for o, array in decode(head["outputs"], body[size:])}


def encode(array):
    """The datatype and the little-endian bytes of an array."""
    if array.dtype.kind in "OSU":
        texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.ravel().tolist()]
        return "BYTES", b"".join(struct.pack("<I", len(t)) + t for t in texts)
    datatype = NAMES.get(array.dtype.newbyteorder("="))
    if datatype is None:
        raise TypeError(f"an array of {array.dtype} has no datatype in the protocol; convert it with astype")
    return datatype, np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def decode(outputs, data):
    """Pairs of an output's description and its array."""
    at = 0
    for o in outputs:
        size = o.get("parameters", {}).get("binary_data_size")
        if size is None:  # as JSON
            kind = object if o["datatype"] == "BYTES" else DATATYPES[o["datatype"]]
            yield o, np.array(o["data"], kind).reshape(o["shape"])
            continue
        raw, at = data[at:at + size], at + size
        if o["datatype"] != "BYTES":
            yield o, np.frombuffer(raw, DATATYPES[o["datatype"]]).reshape(o["shape"])
            continue
        texts, read = [], 0
        while read < size:
            (n,) = struct.unpack_from("<I", raw, read)
            texts.append(raw[read + 4:read + 4 + n])
            read += 4 + n
        yield o, np.array(texts, object).reshape(o["shape"])


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: client.py ADDRESS PIPELINE INPUT FILE    sends the file as one element of BYTES")
    with Client(sys.argv[1]) as client, open(sys.argv[4], "rb") as file:
        for name, array in client.infer(sys.argv[2], {sys.argv[3]: np.array([file.read()], object)}).items():
            print(name, array.dtype, array.shape, array.tolist() if array.size < 100 else "...")

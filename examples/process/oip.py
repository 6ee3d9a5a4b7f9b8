"""A server of the Open Inference Protocol v2 (HTTP) on a Unix socket, with the
standard library only. A model gives names, datatypes and shapes, and computes:

    class Model:
        inputs = [("features", "FP32", [-1, 4])]
        outputs = [("label", "BYTES", [-1, 1])]

        def infer(self, tensors):  # {"features": (shape, values)} -> the same for outputs
            ...

    oip.serve(Model())

The first dimension is the batch. Values are flat lists of numbers or strings;
with raw = True in the model they are bytes instead, for numpy and PyTorch.
"""

import http.server
import json
import os
import signal
import socketserver
import struct
import sys
import threading

FORMATS = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "FP32": "f", "FP64": "d",
}
HEADER = "Inference-Header-Content-Length"


class Invalid(Exception):
    """The request is wrong."""


def unpack(datatype, data):
    """Raw data to a flat list."""
    if datatype != "BYTES":
        form = FORMATS[datatype]
        return list(struct.unpack("<%d%s" % (len(data) // struct.calcsize("<" + form), form), data))
    values = []
    while data:
        (size,) = struct.unpack_from("<I", data)
        values.append(data[4:4 + size].decode())
        data = data[4 + size:]
    return values


def pack(datatype, values):
    """A flat list to raw data."""
    if datatype != "BYTES":
        return struct.pack("<%d%s" % (len(values), FORMATS[datatype]), *values)
    encoded = [v.encode() for v in values]
    return b"".join(struct.pack("<I", len(e)) + e for e in encoded)


def flat(data):
    """Nested lists to a flat one."""
    if data and isinstance(data[0], list):
        return [v for row in data for v in flat(row)]
    return data


def length(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def read(model, body, header):
    """The tensors of a request by name, and whether binary answers are wanted."""
    try:
        head = json.loads(body[:header])
        rest = body[header:]
        declared = {name: (datatype, shape) for name, datatype, shape in model.inputs}
        tensors = {}
        for t in head["inputs"]:
            name, datatype, shape = t["name"], t["datatype"], t["shape"]
            if name not in declared:
                raise Invalid("there is no input %r" % name)
            want, dims = declared[name]
            if datatype != want or len(shape) != len(dims) or any(d >= 0 and d != s for d, s in zip(dims, shape)):
                raise Invalid("input %r is %s %s where %s %s is declared" % (name, datatype, shape, want, dims))
            size = t.get("parameters", {}).get("binary_data_size")
            if size is not None:
                raw, rest = rest[:size], rest[size:]
                values = raw if model.raw else unpack(datatype, raw)
            else:
                values = flat(t["data"])
                if model.raw:
                    values = pack(datatype, values)
            tensors[name] = (shape, values)
        if set(tensors) != set(declared):
            raise Invalid("inputs are missing: %s" % ", ".join(sorted(set(declared) - set(tensors))))
        wanted = [o["name"] for o in head.get("outputs", [])] or [name for name, _, _ in model.outputs]
        return head.get("id", ""), tensors, wanted, head.get("parameters", {}).get("binary_data_output", False)
    except Invalid:
        raise
    except Exception as e:
        raise Invalid("the request cannot be read: %s" % e)


def write(model, name, ident, answers, wanted, binary):
    """The body of an answer, and the length of its JSON part."""
    outputs, data = [], b""
    for output, datatype, _ in model.outputs:
        if output not in wanted:
            continue
        shape, values = answers[output]
        tensor = {"name": output, "datatype": datatype, "shape": list(shape)}
        if binary:
            raw = values if model.raw else pack(datatype, values)
            tensor["parameters"] = {"binary_data_size": len(raw)}
            data += raw
        else:
            tensor["data"] = unpack(datatype, values) if model.raw else values
        outputs.append(tensor)
    head = json.dumps({"model_name": name, "id": ident, "outputs": outputs}).encode()
    return head + data, len(head)


def handler(model, name):
    lock = threading.Lock()  # one batch at a time

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for head and body

        def address_string(self):
            return "socket"

        def log_request(self, *_):
            pass

        def reply(self, status, body, **headers):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def say(self, status, what):
            self.reply(status, json.dumps(what).encode(), Content_Type="application/json")

        def do_GET(self):
            path = self.path.rstrip("/")
            if path in ("/v2/health/live", "/v2/health/ready", "/v2/models/%s/ready" % name):
                self.say(200, {"ready": True})
            elif path == "/v2":
                self.say(200, {"name": "oip.py", "version": "1", "extensions": ["binary_tensor_data"]})
            elif path == "/v2/models/" + name:
                port = lambda p: {"name": p[0], "datatype": p[1], "shape": p[2]}
                self.say(200, {"name": name, "versions": ["1"], "platform": "python",
                               "inputs": [port(p) for p in model.inputs], "outputs": [port(p) for p in model.outputs]})
            else:
                self.say(404, {"error": "there is nothing at " + path})

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path != "/v2/models/%s/infer" % name:
                self.say(404, {"error": "there is nothing at " + self.path})
                return
            try:
                header = int(self.headers.get(HEADER, len(body)))
                ident, tensors, wanted, binary = read(model, body, header)
                with lock:
                    answers = model.infer(tensors)
                body, header = write(model, name, ident, answers, wanted, binary)
            except Invalid as e:
                self.say(400, {"error": str(e)})
                return
            except Exception as e:
                self.say(500, {"error": "%s: %s" % (type(e).__name__, e)})
                return
            if binary:
                self.reply(200, body, Content_Type="application/octet-stream", **{HEADER.replace("-", "_"): str(header)})
            else:
                self.reply(200, body, Content_Type="application/json")

    return Handler


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def serve(model):
    """Serves until SIGTERM, on the socket that the environment names."""
    if not hasattr(model, "raw"):
        model.raw = False
    path, name = os.environ["HARPAGON_SOCKET"], os.environ["HARPAGON_MODULE"]
    server = Server(path, handler(model, name))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print("serves %s" % name, flush=True)
    server.serve_forever()
    sys.exit(0)

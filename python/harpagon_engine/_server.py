"""A server of the Open Inference Protocol v2 (HTTP) on a Unix socket, with its extensions
for binary tensors and system shared memory, and two of Harpagon's:

harpagon_memory_file  a region is registered with its file (SCM_RIGHTS) in place of a name
harpagon_ahead        the next batch may be sent while one is computed; it waits here
"""

from __future__ import annotations

import array
import http.server
import io
import json
import mmap
import os
import queue
import signal
import socket
import socketserver
import sys
import threading
import traceback
from typing import Any, Iterable, Mapping, NoReturn, Sequence
from urllib.parse import unquote

from ._model import Model
from ._session import NAME as SESSION
from ._tensors import FORMATS, SIZES, Batch, Invalid, Port, Tensor, flat, pack, size_of

HEADER = "Inference-Header-Content-Length"
EXTENSIONS = ["binary_tensor_data", "system_shared_memory", "harpagon_memory_file", "harpagon_ahead"]
REGION, OFFSET, SIZE = "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"


class Regions:
    """The memory that clients have registered, by name."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.lock = threading.Lock()
        self.all: dict[str, memoryview] = {}

    def register(self, name: str, said: Mapping[str, Any], files: list[int]) -> None:
        key, offset, size = said.get("key", ""), said.get("offset", 0), said.get("byte_size")
        if not isinstance(size, int) or not isinstance(offset, int) or size < 1 or offset < 0:
            raise Invalid("region %r needs a byte_size above 0 and no negative offset" % name)
        if files:
            file = files.pop()
        else:
            if not isinstance(key, str) or "/" in key.lstrip("/") or key.strip("/.") == "":
                raise Invalid("the key %r is no name of shared memory" % (key,))
            try:
                file = os.open("/dev/shm/" + key.lstrip("/"), os.O_RDWR)
            except OSError as e:
                raise Invalid("there is no shared memory %r: %s" % (key, e.strerror))
        try:
            if os.fstat(file).st_size < offset + size:
                raise Invalid("region %r is to have %d bytes from %d of a file of %d" % (name, size, offset, os.fstat(file).st_size))
            with self.lock:
                if name in self.all:
                    raise Invalid("there is a region %r already; unregister it first" % name)
                self.all[name] = region = memoryview(mmap.mmap(file, offset + size))[offset:]
        finally:
            os.close(file)
        self.model.region_added(region)

    def unregister(self, names: Iterable[str]) -> None:
        for name in names:
            with self.lock:
                region = self.all.pop(name, None)
            if region is not None:  # a model may still look at it; the last to do so unmaps it
                self.model.region_removed(region)

    def place(self, parameters: Mapping[str, Any]) -> memoryview:
        """The memory that a tensor's parameters name."""
        name, offset, size = parameters[REGION], parameters.get(OFFSET, 0), parameters.get(SIZE)
        with self.lock:
            region = self.all.get(name)
        if region is None:
            raise Invalid("there is no region %r; register it first" % (name,))
        if not isinstance(offset, int) or not isinstance(size, int) or offset < 0 or size < 0 or offset + size > len(region):
            raise Invalid("%r bytes at %r are not within region %r, which has %d" % (size, offset, name, len(region)))
        return region[offset:offset + size]


class Work:
    """A batch that waits for its turn."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.outputs: dict[str, Tensor] = {}
        self.error: Exception | None = None
        self.done = threading.Lock()
        self.done.acquire()


class Request:
    """What an inference request asks for."""

    def __init__(self, server: Server, body: memoryview, header: int) -> None:
        try:
            head = json.loads(bytes(body[:header]))
            rest = body[header:]
            self.id = head.get("id", "")
            self.binary = bool(head.get("parameters", {}).get("binary_data_output", False))
            inputs: dict[str, Tensor] = {}
            for t in head["inputs"]:
                rest = self._input(server, inputs, t, rest)
            missing = sorted(set(server.inputs) - set(inputs))
            if missing:
                raise Invalid("inputs are missing: %s" % ", ".join(missing))
            self.wanted: list[str] = []
            places: dict[str, memoryview] = {}
            self.parameters: dict[str, Mapping[str, Any]] = {}
            for o in head.get("outputs", []):
                name, parameters = o["name"], o.get("parameters", {})
                if name not in server.outputs:
                    raise Invalid("there is no output %r" % name)
                self.wanted.append(name)
                if REGION in parameters:
                    places[name] = server.regions.place(parameters)
                    self.parameters[name] = parameters
            self.wanted = self.wanted or list(server.outputs)
        except Invalid:
            raise
        except Exception as e:
            raise Invalid("the request cannot be read: %s: %s" % (type(e).__name__, e))
        self.batch = Batch(inputs, server.outputs, places)

    @staticmethod
    def _input(server: Server, inputs: dict[str, Tensor], t: Mapping[str, Any], rest: memoryview) -> memoryview:
        name, datatype, shape = t["name"], t["datatype"], t["shape"]
        port = server.inputs.get(name)
        if port is None:
            raise Invalid("there is no input %r" % name)
        if not port.fits(datatype, shape):
            raise Invalid("input %r is %s %s where %s %s is declared" % (name, datatype, shape, port.datatype, port.shape))
        parameters = t.get("parameters", {})
        if REGION in parameters:
            data = server.regions.place(parameters)
        elif "binary_data_size" in parameters:
            size = parameters["binary_data_size"]
            data, rest = rest[:size], rest[size:]
        else:
            data = memoryview(bytearray(pack(datatype, flat(t["data"]))))
        need = size_of(datatype, shape)
        if need >= 0 and len(data) != need:
            raise Invalid("input %r has %d bytes where %s %s has %d" % (name, len(data), datatype, shape, need))
        inputs[name] = Tensor(name, datatype, shape, data)
        return rest

    def answer(self, name: str, outputs: Mapping[str, Tensor]) -> tuple[bytes, list[memoryview]]:
        """JSON part and binary data."""
        said, data = [], []
        for output in self.wanted:
            t = outputs[output]
            tensor: dict[str, Any] = {"name": output, "datatype": t.datatype, "shape": t.shape}
            if output in self.parameters:
                p = self.parameters[output]
                if len(t.data) > p[SIZE]:
                    raise Invalid("output %r has %d bytes where its place has %d" % (output, len(t.data), p[SIZE]))
                tensor["parameters"] = {REGION: p[REGION], OFFSET: p.get(OFFSET, 0), SIZE: len(t.data)}
            elif self.binary:
                tensor["parameters"] = {"binary_data_size": len(t.data)}
                data.append(t.data)
            else:
                tensor["data"] = t.values()
            said.append(tensor)
        return json.dumps({"model_name": name, "id": self.id, "outputs": said}).encode(), data


class Reader(io.RawIOBase):
    """Reads a connection, and collects the files that come over it."""

    def __init__(self, connection: socket.socket, files: list[int]) -> None:
        self.connection, self.files = connection, files

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        n, ancillary, _, _ = self.connection.recvmsg_into([into], socket.CMSG_SPACE(4))
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(data[:len(data) - len(data) % received.itemsize])
                self.files += received
        return n


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server: Server  # type: ignore[assignment]

    def setup(self) -> None:
        super().setup()
        self.files: list[int] = []
        self.rfile = io.BufferedReader(Reader(self.connection, self.files), 64 << 10)

    def finish(self) -> None:
        super().finish()
        for file in self.files:
            os.close(file)

    def address_string(self) -> str:
        return "socket"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        pass

    def send(self, status: int, head: bytes, data: Sequence[memoryview] = (), binary: bool = False) -> None:
        lines = "HTTP/1.1 %d %s\r\nContent-Type: application/%s\r\nContent-Length: %d\r\n" % (
            status, self.responses[status][0], "octet-stream" if binary else "json", len(head) + sum(len(d) for d in data))
        if binary:
            lines += "%s: %d\r\n" % (HEADER, len(head))
        parts = [lines.encode() + b"\r\n" + head, *data]
        if sum(len(p) for p in parts) <= 64 << 10:  # one write costs less than copying so little
            parts = [b"".join(parts)]
        for part in parts:
            self.wfile.write(part)

    def say(self, status: int, what: Any) -> None:
        self.send(status, json.dumps(what).encode())

    def do_GET(self) -> None:
        s, path = self.server, unquote(self.path.rstrip("/"))
        model = "/v2/models/" + s.name
        if path == "/v2/health/live":
            self.say(200, {"live": True})
        elif path in ("/v2/health/ready", model + "/ready"):
            self.say(200 if s.ready else 503, {"ready": s.ready})
        elif path == "/v2":
            self.say(200, {"name": "harpagon_engine", "version": "1", "extensions": EXTENSIONS})
        elif path == model:
            ports = [[dict(zip(("name", "datatype", "shape"), p)) for p in of.values()] for of in (s.inputs, s.outputs)]
            for port in ports[0]:
                if port["name"] == SESSION:
                    port["loop"] = SESSION
            self.say(200, {"name": s.name, "versions": ["1"], "platform": "python", "inputs": ports[0], "outputs": ports[1],
                           "parameters": {"memory_bytes": s.model.memory()}})
        elif path == "/v2/systemsharedmemory/status":
            self.say(200, [{"name": n, "byte_size": len(r)} for n, r in list(s.regions.all.items())])
        else:
            self.say(404, {"error": "there is nothing at " + self.path})

    def do_POST(self) -> None:
        body = bytearray(int(self.headers.get("Content-Length", 0)))
        view, got = memoryview(body), 0
        while got < len(body):
            n = self.rfile.readinto(view[got:])
            if not n:
                self.close_connection = True
                return
            got += n
        try:
            self.post(view)
        except Invalid as e:
            self.say(400, {"error": str(e)})
        except Exception as e:
            full = isinstance(e, MemoryError) or "out of memory" in str(e)
            self.say(507 if full else 500, {"error": "%s: %s" % (type(e).__name__, e)})

    def post(self, body: memoryview) -> None:
        s, path = self.server, unquote(self.path)
        if path == "/v2/models/%s/infer" % s.name:
            request = Request(s, body, int(self.headers.get(HEADER, len(body))))
            work = s.compute(request.batch)
            head, data = request.answer(s.name, work.outputs)
            self.send(200, head, data, binary=bool(data))
            return
        parts = path.split("/")
        if parts[:4] == ["", "v2", "systemsharedmemory", "region"] and len(parts) == 6 and parts[5] in ("register", "unregister"):
            if parts[5] == "unregister":
                s.regions.unregister([parts[4]])
            else:
                try:
                    said = json.loads(bytes(body))
                except ValueError as e:
                    raise Invalid("the request cannot be read: %s" % e)
                s.regions.register(parts[4], said, self.files)
            self.say(200, {})
        elif path == "/v2/systemsharedmemory/unregister":
            s.regions.unregister(list(s.regions.all))
            self.say(200, {})
        else:
            self.say(404, {"error": "there is nothing at " + path})


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """One model, for any number of connections. Every connection has a thread, and all batches
    are computed by one: libraries keep much for each thread, as cuDNN the kernels that it has chosen."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, model: Model, path: str, name: str) -> None:
        self.model, self.name, self.ready = model, name, False
        self.inputs, self.outputs = _ports(model.inputs), _ports(model.outputs)
        if model.state:
            self.inputs[SESSION] = self.outputs[SESSION] = Port(SESSION, "BYTES", [-1, 1])
        self.regions = Regions(model)
        self.waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
        super().__init__(path, Handler)

    def compute(self, batch: Batch) -> Work:
        """Waits for the batch's turn and its outputs."""
        work = Work(batch)
        self.model.prepare(batch)
        self.waiting.put(work)
        work.done.acquire()
        if work.error is not None:
            raise work.error
        return work

    def run(self) -> NoReturn:
        """Computes batches, one after the other."""
        while True:
            work = self.waiting.get()
            try:
                answers = {**self.model.infer(work.batch), **work.batch.kept()}
                missing = [name for name in self.outputs if name not in answers]
                if missing:
                    raise ValueError("infer returned no output %r" % missing[0])
                work.outputs = {name: work.batch.answer(name, answers[name]) for name in self.outputs}
                del answers
            except Invalid as e:
                work.error = e
            except Exception as e:
                traceback.print_exc()
                work.error = e
            work.done.release()
            del work

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # the other end may go when it likes
            traceback.print_exc()


def _ports(declared: Sequence[tuple[str, str, Sequence[int]]]) -> dict[str, Port]:
    all = {}
    for name, datatype, shape in declared:
        if datatype != "BYTES" and datatype not in SIZES:
            raise SystemExit("tensor %r has the datatype %r; there are BYTES, BF16, %s" % (name, datatype, ", ".join(FORMATS)))
        all[name] = Port(name, datatype, list(shape))
    return all


def serve(model: Model) -> NoReturn:
    """Loads the model and serves it until SIGTERM, as the environment says that Harpagon gives to the
    commands that it starts."""
    try:
        path, name = os.environ["HARPAGON_SOCKET"], os.environ["HARPAGON_MODULE"]
    except KeyError as e:
        raise SystemExit("%s is not set: this program is started by Harpagon, as the command of a module" % e)
    server = Server(model, path, name)

    def end(*_: Any) -> NoReturn:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        model.load(os.environ.get("HARPAGON_MODEL", ""), "cuda" if os.environ.get("HARPAGON_DEVICE", "").startswith("gpu/") else "cpu")
        server.ready = True
        print("serves %s" % name, flush=True)
        server.run()
    finally:
        model.close()

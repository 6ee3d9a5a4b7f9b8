"""Stands in for PyTorch, which not every machine has: as much of it as the tutorial needs."""

import contextlib
import struct

float32, float16, uint8 = "float32", "float16", "uint8"
inference_mode = contextlib.nullcontext


class device:
    def __init__(self, name):
        self.type = name.split(":")[0]


class Tensor:
    """A shape, and the memory below it where there is some; its numbers are all alike."""

    def __init__(self, shape, memory=None):
        self.shape, self.memory = tuple(shape), memory

    def reshape(self, shape):
        return Tensor(shape, self.memory)

    def to(self, *_, **__):
        return self

    contiguous = float = __truediv__ = softmax = to

    def copy_(self, _, **__):
        self.memory[:] = struct.pack("<f", 0.001) * (len(self.memory) // 4)


class Network:
    """Answers with a thousand numbers."""

    def to(self, *_):
        return self

    eval = load_state_dict = to

    def state_dict(self):
        return {}

    def __call__(self, image):
        return Tensor([image.shape[0], 1000])


def frombuffer(data, dtype):
    return Tensor([], data)


def save(_, path):
    with open(path, "wb") as f:
        f.write(b"weights")


def load(path, map_location):
    with open(path, "rb") as f:
        return f.read()

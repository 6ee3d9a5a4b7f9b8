"""What a program implements."""

from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

from ._tensors import Batch


class Model:
    """A model that is served. Only infer, inputs and outputs are needed."""

    #: Name, datatype and shape of every tensor; -1 is a dimension that varies, the first is the batch.
    inputs: Sequence[tuple[str, str, Sequence[int]]] = ()
    outputs: Sequence[tuple[str, str, Sequence[int]]] = ()

    #: Whether it keeps state between the frames of a stream, in batch.sessions; the module then says state = true.
    state: bool = False

    def load(self, path: str, device: str) -> None:
        """Makes the model ready. path is that of the module's model, empty without one;
        device is "cuda" on a GPU, of which this process sees no other, or else "cpu"."""

    def infer(self, batch: Batch) -> Mapping[str, Any]:
        """Computes a batch: by output numpy arrays, PyTorch tensors, anything with a
        buffer, (shape, flat list), or what batch.output gave. An exception fails the batch, and the
        executor then sends each of its requests by itself, so that only those fail that are wrong."""
        raise NotImplementedError

    def prepare(self, batch: Batch) -> None:
        """Is called when a batch has come, by another thread, while the one before may
        still be computed; batch.prepared is for what it makes, such as a copy on the device."""

    def memory(self) -> int:
        """Bytes that the model takes on its device; here those of this process."""
        try:
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return 0

    def region_added(self, region: memoryview) -> None:
        """Is told of memory in which tensors will lie, such as to pin it."""

    def region_removed(self, region: memoryview) -> None:
        """Is told when none will lie there any more."""

    def close(self) -> None:
        """Is called before the process ends."""

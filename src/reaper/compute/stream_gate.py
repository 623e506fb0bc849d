"""A gate on a GPU's stream: work is handed over before its input is there, and begins the moment the host says so.

Asking a GPU for work takes the host longest when it has just been woken, and then games stand still. A stream can wait
for a number in host memory instead (`cuStreamWaitValue32`, which torch does not offer).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

import torch

AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ, by the difference of two numbers, so that they may run over


class Gate:
    """Closed, it holds up whatever a stream is given; nothing else of the GPU."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        self._wait_for = library.cuStreamWaitValue32_v2
        self._wait_for.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
        self._number = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._seen = self._number.numpy().view("uint32")
        self._passed = 0

    @contextlib.contextmanager
    def closed(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Until the end of the block, which must not wait for the GPU. An error opens it, too."""
        following = (self._passed + 1) % 2**32
        try:
            if error := self._wait_for(stream.cuda_stream, self._number.data_ptr(), following, AT_LEAST):
                raise OSError(f"cuStreamWaitValue32 failed with {error}")
            yield
        finally:
            self._seen[0] = self._passed = following


def new_gate() -> Gate | None:
    """A gate that was tried once; none where the driver has no such thing."""
    try:
        gate = Gate()
        with gate.closed(torch.cuda.current_stream()):
            pass
    except (OSError, AttributeError):
        return None
    return gate

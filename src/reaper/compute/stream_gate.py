"""A gate on a CUDA stream: work is enqueued before its input exists, and starts as soon as the host opens the gate.

Enqueueing work is slowest right after the host thread was woken, and the environments are idle meanwhile. So the work
is enqueued while they still run, behind a wait for a number in host memory (`cuStreamWaitValue32`, which torch does not
expose). Gain: about 100 microseconds of a 3 ms step.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

import torch

WAIT_VALUE_GEQ = 0  # CU_STREAM_WAIT_VALUE_GEQ: compares by difference, so the counter may overflow


class StreamGate:
    """While closed, holds up whatever is enqueued on one stream; other streams are not affected."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        self._stream_wait_value = library.cuStreamWaitValue32_v2
        self._stream_wait_value.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
        self._counter = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self._host_counter = self._counter.numpy().view("uint32")
        self._opened = 0

    @contextlib.contextmanager
    def closed(self, stream: torch.cuda.Stream) -> Iterator[None]:
        """Closes the gate for the duration of the block, which must not synchronise with the GPU. Also opens after an
        error."""
        following = (self._opened + 1) % 2**32
        try:
            if error := self._stream_wait_value(
                stream.cuda_stream, self._counter.data_ptr(), following, WAIT_VALUE_GEQ
            ):
                raise OSError(f"cuStreamWaitValue32 failed with {error}")
            yield
        finally:
            self._host_counter[0] = self._opened = following


def new_stream_gate() -> StreamGate | None:
    """A gate that was tried once; None where the driver does not support it."""
    try:
        gate = StreamGate()
        with gate.closed(torch.cuda.current_stream()):
            pass
    except (OSError, AttributeError):
        return None
    return gate

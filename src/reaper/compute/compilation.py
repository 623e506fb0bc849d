"""Machine code for what is done over and over, where a compiler is there and the work is long enough to repay it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from reaper.compute.layouts import is_small
from reaper.config.settings import Settings
from reaper.tasks.observation import state_spec

WORTH_IT = 5_000  # updates; below, compiling takes longer than it saves

Function = TypeVar("Function", bound=Callable)


@functools.cache
def can_compile(device: str) -> bool:
    """Whether torch can turn functions into machine code here: with a C++ compiler, or with Triton on a GPU."""
    if device == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in ("g++", "c++", "clang++"))


def worth_compiling(settings: Settings, device: torch.device) -> bool:
    """Small networks spend their time elsewhere, and a short run is over before the compiler is."""
    frames = max(settings.short_term.agent_steps, settings.long_term.agent_steps)
    updates = frames // settings.training.steps_per_update
    return not is_small(state_spec(settings.observation)) and updates >= WORTH_IT and can_compile(device.type)


def use_quick_arithmetic(device: torch.device) -> None:
    """Sets torch up for a stage. On a GPU matrix products round their inputs to TF32; and what was compiled for the
    networks of an earlier stage is forgotten, since only so many versions of one function are kept."""
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@contextlib.contextmanager
def flush_denormals() -> Iterator[None]:
    """Takes numbers below 1e-38 as zero, in this thread and those it starts. The average of a gradient that has become
    zero for good ends there and stays, and on a CPU each such number costs a hundred times as much as any other."""
    before = not torch.full((), 1e-30).mul(1e-10).is_nonzero()  # torch does not tell
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def compute_dtype_for(device: torch.device) -> torch.dtype | None:
    """What runs that are worth compiling round the maps and kernels of their networks to in updates, if anything.
    Weights and the optimiser stay in single precision, and so do sums."""
    quick = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_multiplies_bf16()
    return torch.bfloat16 if quick else None


def _cpu_multiplies_bf16() -> bool:
    """Whether the vector units multiply bf16 numbers at twice the speed of single precision. AMD's do; Intel's do not,
    and where there is a matrix unit torch uses that, which crashes if a virtual machine keeps it to itself."""
    tell = getattr(torch.cpu, "get_capabilities", None)  # an older torch does not know
    features = tell() if tell else {}
    return bool(features.get("avx512_bf16")) and str(features.get("cpu_name", "")).startswith("AMD")


def compiled(function: Function, device: torch.device, plain: Callable | None = None, small: bool = False) -> Function:
    """The same function, traced and fused; shapes are fixed, so each batch size gets code of its own. What cannot be
    traced (a retention method of a user's, say) is run as it is: `plain`, or the function itself. `small` batches leave
    a GPU room to do two things at a time."""
    from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException  # here: they take seconds to import

    # On a CPU the second core idles while Python goes from kernel to kernel, so C++ does that too.
    options: dict[str, Any] = {"cpp_wrapper": True} if device.type == "cpu" else {}
    if small and device.type == "cuda":
        with contextlib.suppress(ImportError):  # of a part of torch that may move; it is only quicker with it
            from reaper.compute.concurrent_gradients import PutOffGradientsOfWeights

            options["post_grad_custom_post_pass"] = PutOffGradientsOfWeights()

    def quick() -> Callable:
        return torch.compile(function, fullgraph=True, dynamic=False, options=options or None)

    spare = plain or function
    chosen, tried_again = quick(), False

    def run(*words: Any) -> Any:
        nonlocal chosen, tried_again
        try:
            return chosen(*words)
        except TorchDynamoException as error:
            if chosen is spare:
                raise
            if isinstance(error, BackendCompilerFailed) and not tried_again:
                use_fresh_cache()
                chosen, tried_again = quick(), True
            else:
                name, reason = getattr(function, "__qualname__", function), str(error).splitlines()[0]
                warnings.warn(f"{name} is run without compiling: {reason}", stacklevel=2)
                chosen = spare
        return run(*words)

    return run  # pyright: ignore[reportReturnType]


def skip_guards() -> contextlib.AbstractContextManager[Any]:
    """Machine code is run without asking, before every call, whether all that it was made for is still so. For calls
    that follow one at which it was asked, with nothing between them that could change."""
    try:
        return torch.compiler.set_stance(skip_guard_eval_unsafe=True)
    except TypeError:  # an older torch always asks
        return contextlib.nullcontext()


@functools.cache  # once a process
def use_fresh_cache() -> None:
    """A process that was killed while it wrote machine code leaves half a file in torch's cache, which no later process
    can load. So the code is made again, in a folder that goes with this process."""
    folder = tempfile.mkdtemp(prefix="reaper-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    torch.compiler.reset()


def answer(network: torch.nn.Module, states: torch.Tensor, compute_dtype: torch.dtype | None = None) -> torch.Tensor:
    """A network's outputs, as a function that can be compiled once for all networks of a kind."""
    return network(states) if compute_dtype is None else network(states, compute_dtype=compute_dtype)

"""Which function implements which of the paper's equations, keyed by its LaTeX label."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


@dataclass(frozen=True)
class Equation:
    """One equation of the paper and where it is implemented."""

    label: str
    function: Callable[..., Any]
    module: str
    file: str  # relative to the package, with forward slashes
    summary: str  # first line of the function's docstring


_equations: dict[str, Equation] = {}
EQUATIONS: Mapping[str, Equation] = MappingProxyType(_equations)


def equation(label: str) -> Callable[[AnyFunction], AnyFunction]:
    """Registers the decorated function, unchanged, as the only implementation of `label`."""

    def record(function: AnyFunction) -> AnyFunction:
        if label in _equations:
            known = _equations[label]
            raise ValueError(f"equation '{label}' is already implemented by {known.function!r} in {known.file}")
        module = function.__module__
        file = "/".join(module.split(".")[1:]) + ".py"
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        _equations[label] = Equation(label, function, module=module, file=file, summary=summary)
        return function

    return record

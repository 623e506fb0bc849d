"""Tables of text, from which the terminal, Markdown, HTML, LaTeX and CSV versions are made; and numbers as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

UNKNOWN = "–"


@dataclass(frozen=True)
class TextTable:
    """A table whose first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)
    name: str = ""  # of its files; by default made from the title

    @property
    def stem(self) -> str:
        """A file's name without its suffix."""
        return self.name or re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def number(value: float, decimals: int = 2) -> str:
    if math.isnan(value):
        return UNKNOWN
    text = f"{value:.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text  # no minus zero


def decimals_for(values: Iterable[float]) -> int:
    """One precision per column: whole points where scores are in the hundreds."""
    largest = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
    return 0 if largest >= 100 else 1 if largest >= 10 else 2


def score(mean: float, deviation: float, decimals: int) -> str:
    return UNKNOWN if math.isnan(mean) else f"{number(mean, decimals)} ± {number(deviation, decimals)}"


def mean_and_deviation(scores: np.ndarray) -> tuple[float, float]:
    return (float(scores.mean()), float(scores.std())) if len(scores) else (math.nan, math.nan)


def memory_unit(sizes: Iterable[float]) -> tuple[str, float, int]:
    """One unit per column: its name, its size in bytes and the decimals to print. As in the paper, GB is 10^9 bytes."""
    largest = max((size for size in sizes if not math.isnan(size)), default=0.0)
    return ("GB", 1e9, 3) if largest >= 1e8 else ("MB", 1e6, 2) if largest >= 1e6 else ("kB", 1e3, 1)

"""Whether the same weights matter to several tasks (Table F-over)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch

from reaper.equations import fisher_overlap

Fisher = Mapping[str, torch.Tensor]


def overlap_rows(fishers: Mapping[str, Fisher]) -> list[dict[str, Any]]:
    """The overlap of every pair of tasks, in their order; None if the Fisher matrix of either is zero."""
    rows = []
    for first, second in combinations(fishers, 2):
        value = float(fisher_overlap(fishers[first], fishers[second]))
        rows.append({"first": first, "second": second, "overlap": value if value == value else None})
    return rows

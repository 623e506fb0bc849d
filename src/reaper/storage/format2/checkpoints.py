"""The state of an unfinished stage in format 2, converted to format 3.

A checkpoint is flat: path of a value in the nested state -> value (state.py). Renaming a part renames its path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reaper.storage.format2.documents import convert_rows

# Applied in this order, each to the whole path.
RENAMED = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^practice/", "trainer/"),
        (r"^trainer/actor/", "trainer/acting_weights/"),
        (r"^lesson/", "objective/"),
        (r"(^|/)player/", r"\1actor/"),
        (r"^trainer/observed_frames$", "trainer/agent_steps"),
        (r"^trainer/(pending/\d+)/observed_frames$", r"trainer/\1/agent_steps"),
        (r"(^|/)replay/cut_off$", r"\1replay/truncated"),
        (r"^trainer/seam$", "trainer/boundary"),
        (r"^trainer/tested$", "trainer/tasks_done"),
        (r"^drawing/", "sampler/"),
        (r"^gathering/frame$", "collection/agent_steps"),
        (r"^gathering/", "collection/"),
        (r"(^|/)actor/drawn(/|$)", r"\1actor/random_actions\2"),
        (r"(^|/)actor/random_actions/explores$", r"\1actor/random_actions/explore"),
        (r"(^|/)actor/log$", r"\1actor/action_log"),
        (r"(^|/)actor/running$", r"\1actor/returns"),
        (r"^adversarial/", "generator/"),
        (r"^generator/pairs_done$", "generator/calls_done"),
    )
)


def convert_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors, or the other values, of a checkpoint under their new paths."""
    converted = {}
    for path, value in values.items():
        for pattern, replacement in RENAMED:
            path = pattern.sub(replacement, path)
        converted[path] = convert_rows(value) if path.rpartition("/")[2] == "rows" else value
    return converted

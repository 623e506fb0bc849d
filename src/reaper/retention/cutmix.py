"""CutMix for pseudo-items: a rectangle of one state is replaced by that of another.

Rehearsal makes the new agent's outputs equal the previous agent's, and the previous agent can answer for any input, not
only for states that a generator happens to generate. Mixed states lie between generated ones. Agents that agree there
agree more on real states, too: in a test on Atari the error there fell by about half (docs/lab/generators.md).
"""

from __future__ import annotations

import torch

from reaper.errors import UserError
from reaper.tasks.observation import VECTOR, ObservationSpec

SMALLEST, LARGEST = 1 / 8, 3 / 4  # sides of a rectangle, as shares of the frame's sides


def check_cutmix(share: float, observation: ObservationSpec) -> None:
    """Vectors have no rectangles."""
    if share > 0 and observation.kind == VECTOR:
        raise UserError(f"cutmix needs images, not {observation}: leave it at 0")


def cutmix_(states: torch.Tensor, share: float, rng: torch.Generator, chunk: int = 1000) -> None:
    """Mixes a random share of the states (N, channels, height, width), in place: each gets a rectangle, at the same
    place and in all channels, of another state, which may be a mixed one itself."""
    count = round(share * len(states))
    chosen = torch.randperm(len(states), generator=rng, device=states.device)[:count]
    for places in chosen.split(chunk):
        others = torch.randint(len(states), (len(places),), generator=rng, device=states.device)
        inside = rectangles(len(places), states.shape[-2:], rng).unsqueeze(1)
        states[places] = torch.where(inside, states[others], states[places])


def rectangles(count: int, sides: torch.Size, rng: torch.Generator) -> torch.Tensor:
    """Random rectangles that lie within the frame, as masks (count, height, width)."""
    (rows, columns) = (_intervals(count, side, rng) for side in sides)
    return rows[:, :, None] & columns[:, None, :]


def _intervals(count: int, side: int, rng: torch.Generator) -> torch.Tensor:
    """Random intervals of 0 ... side - 1, as masks (count, side)."""
    random = torch.rand(2, count, 1, generator=rng, device=rng.device)
    length = (side * (SMALLEST + (LARGEST - SMALLEST) * random[0])).round().clamp(min=1)
    start = (random[1] * (side - length + 1)).floor()
    places = torch.arange(side, device=rng.device)
    return (places >= start) & (places < start + length)

"""Which memory layouts and which code paths pay for which observations."""

from __future__ import annotations

from reaper.tasks.observation import IMAGE, ObservationSpec

SMALL_FRAME = 36  # pixels per side; below, networks are scaled down, and neither compiling nor channels-last pays


def is_small(observation: ObservationSpec) -> bool:
    """Whether a network for such observations is so small that its kernels cost less than their launch."""
    return observation.kind != IMAGE or max(observation.shape[1:]) < SMALL_FRAME

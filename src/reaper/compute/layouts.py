"""Which memory layouts and which code paths pay for which observations."""

from __future__ import annotations

from reaper.tasks.observation import IMAGE, SMALL_FRAME, ObservationSpec


def is_small(observation: ObservationSpec) -> bool:
    """Whether a network for such observations is so small that its kernels cost less than their launch."""
    return observation.kind != IMAGE or max(observation.shape[1:]) < SMALL_FRAME

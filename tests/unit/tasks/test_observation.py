"""The observation spec: frames and stacks, sizes, JSON, and what it refuses."""

import numpy as np
import pytest
import torch

from reaper.config.settings import ObservationSettings
from reaper.errors import UserError
from reaper.tasks.observation import VECTOR, ObservationSpec, state_spec, to_picture


def test_a_state_stacks_frames_along_the_first_axis():
    state = state_spec(ObservationSettings(frame_size=84, frame_stack=4))
    assert (state.shape, state.dtype, state.kind, state.frame_stack) == ((4, 84, 84), "uint8", "image", 4)
    assert state.frame == ObservationSpec((1, 84, 84))
    assert state.frame.stacked(4) == state
    assert ObservationSpec((3, 20, 30)).stacked(2).shape == (6, 20, 30)
    assert ObservationSpec((8,), "float32", VECTOR).stacked(4).shape == (32,)


def test_sizes_and_dtypes():
    state = state_spec(ObservationSettings(frame_size=16, frame_stack=2))
    assert (state.size, state.num_bytes, state.frame.num_bytes) == (512, 512, 256)
    assert state.torch_dtype == torch.uint8
    vector = ObservationSpec((8,), "float32", VECTOR)
    assert (vector.size, vector.num_bytes, vector.torch_dtype) == (8, 32, torch.float32)


@pytest.mark.parametrize(
    "spec", [ObservationSpec((4, 84, 84), frame_stack=4), ObservationSpec((8,), "float32", VECTOR)]
)
def test_json_brings_back_the_same_spec(spec):
    assert ObservationSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"shape": (84, 84)}, "needs 3 axes"),
        ({"shape": (0, 84, 84)}, "needs 3 axes"),
        ({"shape": (1, 84, 84), "dtype": "float32"}, "is uint8, not float32"),
        ({"shape": (1, 84, 84), "kind": "sound"}, "unknown kind of observation 'sound'"),
        ({"shape": (3, 84, 84), "frame_stack": 2}, "is no stack of 2"),
        ({"shape": (1, 84, 84), "colour": True}, "no observation spec"),
        ({"dtype": "uint8"}, "no observation spec"),
    ],
)
def test_what_is_unsupported_is_refused_in_one_line(values, reason):
    with pytest.raises(UserError, match=reason) as refused:
        ObservationSpec.from_json(values)
    assert "\n" not in str(refused.value)


def test_pictures_are_grey_or_have_colours_last():
    assert to_picture(np.zeros((1, 16, 20))).shape == (16, 20)
    assert to_picture(np.zeros((3, 16, 20))).shape == (16, 20, 3)

"""The observation spec: frames and stacks, sizes, JSON, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reaper.config.settings import ObservationSettings
from reaper.errors import UserError
from reaper.tasks.observation import VECTOR, ObservationSpec, frame_spec, pictures, state_spec, to_picture


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


def test_a_spec_may_be_as_small_as_one_pixel_or_one_number():
    assert ObservationSpec((1, 1, 1)).size == 1
    assert ObservationSpec((1,), "float32", VECTOR).num_bytes == 4
    for stack in (0, -1):
        with pytest.raises(UserError, match=f"is no stack of {stack}"):
            ObservationSpec((2, 4, 4), frame_stack=stack)


def test_a_spec_is_named_for_people():
    assert str(ObservationSpec((3, 16, 20))) == "3x16x20 uint8 images"
    assert str(ObservationSpec((8, 16, 20), frame_stack=4)) == "stacks of 4 2x16x20 uint8 images"


def test_channels_that_identify_the_task_are_left_out_of_pictures():
    states = np.arange(2 * 6 * 2, dtype=np.uint8).reshape(2, 6, 1, 2)
    # Two frames of three channels, of which the last two identify the task.
    assert np.array_equal(pictures(states, 3, identity=2), states[:, ::3])
    assert np.array_equal(to_picture(states[0], identity=5), states[0, 0])
    colour = pictures(np.concatenate([states[:, :3], states[:, 5:]], axis=1), 4, identity=1)
    assert np.array_equal(colour[:, 0, 0], states[:, :3, 0].transpose(0, 2, 1))


def test_hues_are_mixed_and_never_wrap():
    # Two channels: red (255, 51, 51) and its opposite (51, 255, 255); both at once are brighter than white.
    states = np.array([[[[255, 100]], [[255, 10]]]], np.uint8)
    assert pictures(states, 2)[0, 0, 0].tolist() == [[255, 255, 255], [102, 30, 30]]


def test_settings_say_what_an_agent_sees():
    told = ObservationSettings(frame_size=16, frame_stack=2, task_id="one-hot", task_names="catch,dodge,frog")
    assert state_spec(told).shape == (8, 16, 16)  # one channel and three for the tasks, twice
    assert frame_spec(told).without_identity == ObservationSpec((1, 16, 16))
    assert frame_spec(replace(told, task_id="none")) == ObservationSpec((1, 16, 16))
    assert frame_spec(replace(told, task_names="")) == ObservationSpec((1, 16, 16))
    assert frame_spec(replace(told, colour=True)).shape == (6, 16, 16)
    assert frame_spec(replace(told, channels=5, colour=True)).shape == (8, 16, 16)
    vectors = frame_spec(replace(told, features=4))
    assert (vectors.shape, vectors.identity, vectors.kind, vectors.dtype) == ((7,), 3, VECTOR, "float32")
    assert vectors.without_identity.shape == (4,)

"""Which space becomes which observation, what is refused with which alternative, and what boards look like."""

import gymnasium
import numpy as np
import pytest
from conftest import plan_tiny, run_tiny
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Text, Tuple

import reaper
from reaper.cli.main import main
from reaper.errors import UserError
from reaper.generators.gan.generator import generator_layers
from reaper.networks.convolutional import q_network_layers
from reaper.results.runs import read_results
from reaper.tasks.boards import board_images, image_side
from reaper.tasks.gymnasium import GymnasiumTask, gymnasium_task, to_colour
from reaper.tasks.observation import BOARD, ObservationSpec, pictures, vector_spec
from reaper.tasks.sequence import find_sequence, open_task
from reaper.tasks.spaces import board_values, emitted_spec
from reaper.tasks.task import EnvOptions


def board(*shape):
    return ObservationSpec(shape, kind=BOARD)


@pytest.mark.parametrize(
    ("space", "spec"),
    [
        (Box(0, 255, (210, 160, 3), np.uint8), None),
        (Box(0, 255, (64, 64), np.uint8), None),
        (Box(0, 255, (64, 64, 4), np.uint8), board(4, 64, 64)),  # any number of channels
        (Box(0, 255, (7, 7, 3), np.uint8), board(3, 7, 7)),  # too small for an image
        (Box(0, 10, (20, 20, 3), np.uint8), board(3, 20, 20)),
        (Box(0, 1, (10, 10, 6), np.bool_), board(6, 10, 10)),
        (Box(-3, 3, (8, 5), np.int8), board(1, 8, 5)),
        (MultiBinary((10, 10, 4)), board(4, 10, 10)),
        (MultiBinary(12), vector_spec(12)),
        (Box(-1, 1, (5,)), vector_spec(5)),
        (Box(0, 9, (5,), np.int64), vector_spec(5)),
        (Discrete(16), vector_spec(16)),
        (MultiDiscrete([3, 4]), vector_spec(7)),
        (Dict(place=Box(-1, 1, (2, 3)), door=Discrete(2), keys=MultiBinary(4)), vector_spec(12)),
        (Tuple((Discrete(3), Dict(speed=Box(0, 1, (2,))))), vector_spec(5)),
    ],
    ids=str,
)
def test_a_space_is_one_kind_of_observation(space, spec):
    assert emitted_spec("Game-v0", space) == spec


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (Text(5), r"observes Text.*that is no array; leave it out or encode it"),
        (Graph(Box(-1, 1, (3,)), None), r"observes Graph.*that is no array"),
        (OneOf((Discrete(2), Discrete(3))), r"observes OneOf.*that is no array"),
        (
            Dict(image=Box(0, 255, (7, 7, 3), np.uint8), mission=Text(9)),
            r"Dict; its part 'mission', a Text, is no array",
        ),
        (Tuple((Discrete(2), Dict(note=Text(9)))), r"Tuple; its part '1.note', a Text, is no array; leave it out"),
        (
            Dict(image=Box(0, 255, (84, 84, 3), np.uint8)),
            r"'image' has 21,168 numbers, too many for a vector; observe it",
        ),
        (Box(0, 1, (84, 84, 3), np.float32), r"Box.*flatten it to a vector .*FlattenObservation.*or make it a uint8"),
        (Box(0, 1, (84, 85, 3), np.int8), r"boards .* of at most 84 cells per side \(see .*ResizeObservation"),
        (Box(0, 255, (4, 20, 30, 3), np.uint8), r"a task needs uint8 images"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_with_an_alternative(space, reason):
    with pytest.raises(UserError, match=f"^Game-v0 observes.*{reason.partition('observes')[2] or reason}"):
        emitted_spec("Game-v0", space)


@pytest.mark.parametrize(
    ("space", "spec"),
    [
        (Box(0, 255, (12, 12, 1), np.uint8), None),
        (Box(0, 255, (11, 12, 3), np.uint8), board(3, 11, 12)),
        (Box(0, 254, (12, 12, 3), np.uint8), board(3, 12, 12)),
        (Box(0, 255, (100, 12, 3), np.uint8), None),  # larger than any board
        (Box(0, 5, (84, 84), np.int8), board(1, 84, 84)),
        (Box(0, 255, (12, 12, 3), np.int16), board(3, 12, 12)),  # images are uint8
        (Dict(part=Box(-1, 1, (4_096,))), vector_spec(4_096)),
        (Box(-1, 1, (1,)), vector_spec(1)),
    ],
    ids=str,
)
def test_the_smallest_and_the_largest_of_each_kind(space, spec):
    assert emitted_spec("Game-v0", space) == spec


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (Dict(part=Box(-1, 1, (4_097,))), "its part 'part' has 4,097 numbers, too many for a vector"),
        (Discrete(4_097), "it has 4,097 numbers, too many for a vector"),
        (Box(0, 5, (85, 3), np.int8), "of at most 84 cells per side"),
        (Box(-1, 1, (0,)), "flatten it to a vector"),
        (Box(0, 5, (3, 0), np.int8), "a task needs uint8 images"),
        (Box(0, 5, (), np.int8), "a task needs uint8 images"),
    ],
    ids=str,
)
def test_what_is_too_large_or_empty_is_refused(space, reason):
    with pytest.raises(UserError, match=reason):
        emitted_spec("Game-v0", space)


@pytest.mark.filterwarnings("error")
def test_a_board_of_one_value_is_dark():
    assert board_values(np.array([[[3, 3]]]), Box(3, 3, (1, 2), np.int8)).tolist() == [[[[0, 0]]]]


def test_values_of_a_board_are_spread_by_its_bounds():
    space = Box(np.array([[[0, -1]]]), np.array([[[10, 1]]]), (1, 1, 2), np.int64)
    boards = np.array([[[[0, -1]]], [[[10, 0]]], [[[5, 1]]]])
    assert board_values(boards, space).reshape(3, 2).tolist() == [[0, 0], [255, 128], [128, 255]]
    flags = np.array([[[True, False]]])
    assert board_values(flags, MultiBinary((1, 2))).tolist() == [[[[255, 0]]]]


def test_the_image_of_a_board_is_enlarged_and_padded():
    image = board_images(np.array([[[[10, 20], [30, 40]]]], np.uint8), ObservationSpec((2, 5, 5)))
    assert image[0, 0].tolist() == [
        [10, 10, 20, 20, 0],
        [10, 10, 20, 20, 0],
        [30, 30, 40, 40, 0],
        [30, 30, 40, 40, 0],
        [0, 0, 0, 0, 0],
    ]
    assert not image[0, 1].any()


@pytest.mark.parametrize("cells", range(1, 85))
def test_networks_can_be_built_for_boards_of_every_size(cells):
    side = image_side(cells)
    assert cells <= side <= 84
    q_network_layers(ObservationSpec((1, side, side)))
    generator_layers(side, channels=1, width=1)


def test_the_images_of_usual_boards():
    assert [image_side(cells) for cells in (5, 7, 8, 10, 16, 25, 84)] == [16, 16, 16, 20, 16, 28, 84]


def test_pictures_for_people():
    states = np.arange(2 * 6 * 4, dtype=np.uint8).reshape(2, 6, 2, 2)
    assert np.array_equal(pictures(states, 1), states)
    colour = pictures(states, 3)
    assert colour.shape == (2, 2, 2, 2, 3)
    assert colour[1, 1, 0, 1].tolist() == states[1, 3:, 0, 1].tolist()
    hues = pictures(np.eye(2, dtype=np.uint8).reshape(1, 2, 1, 2) * 255, 2)  # one channel lit in each of two cells
    assert hues.shape == (1, 1, 1, 2, 3)
    assert hues[0, 0, 0].tolist() == [[255, 51, 51], [51, 255, 255]]  # red, and the opposite hue


def test_colour_images_keep_their_channels():
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3), dtype=np.uint8)
    assert np.array_equal(to_colour(images, 4, 4), images.transpose(0, 3, 1, 2))
    assert to_colour(images, 2, 2)[0, 1, 0, 0] == np.rint(images[0, :2, :2, 1].mean())
    assert to_colour(images[..., :1], 4, 4)[0].tolist() == [images[0, ..., 0].tolist()] * 3


# -- environments


class Emits(gymnasium.Env):
    """Random observations of any space."""

    action_space = Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        self.observation_space.seed(int(self.np_random.integers(2**30)))
        return self.observation_space.sample(), {}

    def step(self, action):
        self.age += 1
        return self.observation_space.sample(), float(action), self.age == 12, False, {}


@pytest.fixture
def register():
    """Registers environments by their spaces, in order: test/Space0-v0, ..."""
    names = []

    def add(*spaces):
        for space in spaces:
            names.append(f"test/Space{len(names)}-v0")
            gymnasium.register(names[-1], Emits, kwargs={"space": space})
        return names

    yield add
    for name in names:
        del gymnasium.registry[name]


def test_nested_observations_are_gymnasiums_flattened_ones(register):
    space = Dict(place=Box(-1, 1, (2,)), door=Discrete(3))
    (name,) = register(space)
    task = GymnasiumTask(name, EnvOptions(2, vector_spec(5), env_workers=0))
    env = gymnasium.make(name)
    expected = gymnasium.spaces.flatten(space, env.reset(seed=4)[0])
    assert np.array_equal(task.reset(4)[0], expected)
    task.close()


def test_boards_of_different_sizes_share_one_image(register):
    names = register(MultiBinary((10, 10, 4)), Box(0, 3, (7, 5, 6), np.int8))
    sequence = find_sequence(",".join(names))
    assert (sequence.kind, sequence.preset) == (BOARD, "board")
    settings = plan_tiny(["RePR"], ",".join(names)).chains[0].settings
    assert (settings.observation.channels, settings.observation.frame_size) == (6, 20)
    frame = ObservationSpec((6, 20, 20))
    envs = open_task(sequence.tasks[1], EnvOptions(3, frame, env_workers=0))
    shown = envs.reset(0)
    assert (shown.shape, shown.dtype) == ((3, 6, 20, 20), np.uint8)
    assert set(np.unique(shown)) == {0, 85, 170, 255}
    assert np.array_equal(shown[:, :, 0:14:2, 0:10:2], shown[:, :, 1:14:2, 1:10:2])  # cells of 2 x 2 pixels
    assert not shown[:, :, 14:].any()
    envs.close()
    with pytest.raises(UserError, match=r"emits 4x10x10 uint8 boards, not 6x4x4 uint8 images"):
        open_task(sequence.tasks[0], EnvOptions(1, ObservationSpec((6, 4, 4))))


def test_different_kinds_in_one_sequence_are_refused(register):
    names = register(MultiBinary((10, 10, 4)), Box(-1, 1, (4,)))
    with pytest.raises(UserError, match=r"Space1-v0 emits 4 float32 vectors and .*4x10x10 uint8 boards; one network"):
        find_sequence(",".join(names))


def test_a_sequence_of_boards_is_learnt_reported_and_predicted(register, tmp_path):
    names = register(MultiBinary((6, 6, 4)), MultiBinary((5, 5, 2)))
    store = run_tiny(tmp_path / "out", ["RePR", "reh-limit-comp"], ",".join(names))
    assert all(result.finished for result in read_results(store))
    assert main(["report", str(tmp_path / "out")]) == 0
    agent = reaper.load(tmp_path / "out", condition="RePR")
    env = agent.wrap(gymnasium.make(names[1]))
    state, _ = env.reset(seed=0)
    assert np.array_equal(state, agent.make_env(names[1]).reset(seed=0)[0])
    assert agent.predict(state)[0] in (0, 1)
    frames = list(agent.play(names[0]))
    assert frames[0][0].shape == (20, 20, 3)


def test_colour_is_a_setting(register, tmp_path):
    (name,) = register(Box(0, 255, (24, 24, 3), np.uint8))
    assert gymnasium_task(name).observation is None
    overrides = {"observation.colour": True, "observation.frame-size": 12}
    store = run_tiny(tmp_path / "out", ["RePR"], name, preset="arcade", overrides=overrides)
    (result,) = read_results(store)
    assert result.finished
    agent = reaper.load(tmp_path / "out")
    assert agent.observation.shape == (6, 12, 12)
    state, _ = agent.wrap(gymnasium.make(name)).reset(seed=0)
    assert np.array_equal(state, agent.make_env(name).reset(seed=0)[0])
    assert next(iter(agent.play(name)))[0].shape == (12, 12, 3)
    assert main(["report", str(tmp_path / "out")]) == 0


def test_atari_has_colour_on_request():
    pytest.importorskip("ale_py")
    task = reaper.tasks.sequence.find_task("ALE/Boxing-v5")
    envs = open_task(task, EnvOptions(2, ObservationSpec((3, 84, 84))))
    frames = envs.reset(0)
    assert (frames.shape, frames.dtype) == ((2, 3, 84, 84), np.uint8)
    assert (frames[:, 0] != frames[:, 1]).any()
    envs.close()

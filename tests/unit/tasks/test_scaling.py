"""Vector observations: their scale, their padding, and how a sequence's settings learn about both."""

import gymnasium
import numpy as np
import pytest

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE, VECTOR
from reaper.config.sparse_json import from_json, to_json
from reaper.context import Context
from reaper.errors import UserError
from reaper.study.chains import build_chain
from reaper.study.conditions import find_condition
from reaper.tasks.observation import ObservationSpec, state_spec
from reaper.tasks.scaling import Scale, measure_scale
from reaper.tasks.sequence import find_sequence, find_task

NAME = "test/Gauge-v0"
PAIR = "CartPole-v1,Acrobot-v1"


class Gauge(gymnasium.Env):
    """One number in large units, one that never changes, one that counts."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observed(), {}

    def step(self, action):
        self.steps += 1
        return self._observed(), 1.0, self.steps == 10, False, {}

    def _observed(self):
        return np.array([self.np_random.normal(5_000, 1_000), 7, self.steps], np.float32)


@pytest.fixture(autouse=True)
def _registered():
    gymnasium.register(NAME, Gauge)
    yield
    gymnasium.registry.pop(NAME)


def test_a_scaled_number_is_linear_around_the_centre_and_logarithmic_far_from_it():
    scale = Scale(centres=(10.0, 0.0), units=(2.0, 1.0))
    seen = scale.apply(np.array([[10.0, 0.001], [12.0, -99.0]]))
    assert seen.dtype == np.float32
    assert seen == pytest.approx(np.array([[0.0, 0.001], [np.log(2), -np.log(100)]]), abs=1e-6)


def test_the_scale_is_that_of_random_play_and_always_the_same():
    scale = measure_scale(find_task(NAME))
    assert scale.centres[0] == pytest.approx(5_000, rel=0.02)
    assert scale.units[0] == pytest.approx(1_000, rel=0.1)
    assert (scale.centres[1], scale.units[1]) == (7, 1)  # no unit to measure
    assert scale.centres[2] == pytest.approx(5, abs=0.1)  # episodes count from 0 to 10
    measure_scale.cache_clear()
    assert measure_scale(find_task(NAME)) == scale


def test_a_sequence_completes_settings_with_the_longest_vector_and_with_the_scale_of_each_task():
    settings = find_sequence(PAIR).complete(VECTOR)
    assert settings.observation.features == 6
    assert {name: len(units) for name, (_, units) in settings.scales.items()} == {"CartPole-v1": 4, "Acrobot-v1": 6}
    assert state_spec(settings.observation) == ObservationSpec((6,), "float32", "vector")
    assert from_json(to_json(settings)) == settings
    assert find_sequence("catch").complete(ARCADE) == ARCADE


def test_a_scale_that_is_given_is_not_measured():
    given = {"CartPole-v1": ((0.0,) * 4, (2.0,) * 4)}
    settings = find_sequence(PAIR).complete(from_json({**to_json(VECTOR), "scales": _lists(given)}))
    assert settings.scales["CartPole-v1"] == given["CartPole-v1"]


def test_room_for_longer_vectors_can_be_reserved():
    settings = find_sequence(PAIR).complete(with_overrides(VECTOR, {"observation.features": 9}))
    assert state_spec(settings.observation).shape == (9,)
    with pytest.raises(UserError, match="Acrobot-v1 emits 6 float32 vectors, and these settings ask for 5"):
        find_sequence(PAIR).complete(with_overrides(VECTOR, {"observation.features": 5}))
    with pytest.raises(UserError, match="catch emits 1x16x16 uint8 images, and these settings ask for 5 float32"):
        find_sequence("catch").complete(with_overrides(ARCADE, {"observation.features": 5}))


def test_an_agent_sees_scaled_vectors_padded_with_zeros():
    settings = find_sequence(PAIR).complete(VECTOR)
    context, task = Context(settings, 3, 0, ("test",)), find_task("CartPole-v1")
    envs, plain = context.open(task, 2), gymnasium.make("CartPole-v1")
    seen, (raw, _) = envs.reset(3), plain.reset(seed=3)
    centres, units = settings.scales["CartPole-v1"]
    z = (raw - np.array(centres)) / np.array(units)
    assert seen.shape == (2, 6)
    assert seen.dtype == np.float32
    assert seen[0] == pytest.approx(np.append(np.sign(z) * np.log1p(abs(z)), [0, 0]), abs=1e-6)
    envs.send(np.array([1, 1]))
    assert envs.receive().observations[:, 4:].tolist() == [[0, 0], [0, 0]]
    envs.close()


def test_a_stage_depends_on_the_scales_of_its_own_tasks_only():
    settings, sequence = find_sequence(PAIR).complete(VECTOR), find_sequence(PAIR)
    chain = build_chain(find_condition("no-reh"), sequence, 0, VECTOR)
    first, second = (stage.spec["settings"]["scales"] for stage in chain.teachers)
    assert (list(first), list(second)) == (["CartPole-v1"], ["Acrobot-v1"])
    assert from_json(chain.memories[1].spec["settings"]).scales == settings.scales


@pytest.mark.parametrize(
    "numbers", [((0.0,), (1.0,)), ((0.0, 0.0), (1.0, 0.0)), ((0.0, float("nan")), (1.0, 1.0)), ((0.0, 0.0), (1.0,))]
)
def test_scales_that_do_not_fit_are_refused(numbers):
    with pytest.raises(UserError, match="the scale of Fool does not fit observations of 2 numbers"):
        Scale.of("Fool", numbers, 2)


@pytest.mark.parametrize("document", [{"x": 3}, {"x": [1, 2]}, {"x": [[1], ["2"]]}, {"x": [[1], [2], [3]]}, []])
def test_scales_in_files_that_are_no_scales_are_refused(document):
    with pytest.raises(UserError, match="these settings are from another version"):
        from_json({"scales": document})


def _lists(scales):
    return {name: [list(part) for part in scale] for name, scale in scales.items()}

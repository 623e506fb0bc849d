"""What is learnt and what is scored on a game whose returns can be worked out on paper."""

import gymnasium
import pytest
import torch
from corridor import Corridor, Moment, states

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.short_term import ShortTerm
from reaper.tasks.sequence import find_task

SETTINGS = with_overrides(
    ARCADE,
    {
        "training.num_envs": 4,
        "training.replay-capacity": 400,
        "training.learning-starts": 60,
        "training.exploration-steps": 100,
        "short-term.agent-steps": 1_600,
        "short-term.best-window": 1_600,
        "short-term.target-update-interval": 100,
        "short-term.discount": 0.5,
        "optimiser.learning-rate": 0.003,
        "evaluation.episodes": 3,
        "evaluation.interval": 1_600,
    },
)


@pytest.fixture
def open_game():
    """Registers a corridor and returns its task."""
    names = []

    def register(script, time_limit=None, **options):
        names.append(f"test/Corridor{len(names)}-v0")
        gymnasium.register(names[-1], Corridor, kwargs={"script": script, **options}, max_episode_steps=time_limit)
        return find_task(names[-1])

    yield register
    for name in names:
        del gymnasium.registry[name]


def new_context():
    return Context(SETTINGS, 1, 0, ("short-term", "corridor"))


def learnt_values(task, count):
    """The values of an episode's first states after short-term learning."""
    context = new_context()
    network = context.q_network(ShortTerm(context, task).learn().weights)
    with torch.no_grad():
        return network(torch.from_numpy(states(SETTINGS.observation.frame_stack, count)))[:, 0].tolist()


def test_values_are_discounted_back_from_a_distant_reward(open_game):
    """Each state's value comes through the target network from the next state's: 1/16, 1/8, 1/4, 1/2, 1."""
    task = open_game((*[Moment(0.0)] * 4, Moment(1.0, terminated=True)))
    assert learnt_values(task, 5) == pytest.approx([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1], abs=0.02)


def test_a_lost_life_ends_the_return_and_the_game_goes_on(open_game):
    """Without the lost life, the first two values would be 1/4 and 1/2 larger."""
    script = (Moment(0.0, lives=2), Moment(0.0, lives=1), Moment(1.0, lives=1), Moment(0.5, terminated=True, lives=0))
    assert learnt_values(open_game(script, lives=2), 4) == pytest.approx([0.0, 0.0, 1.25, 0.5], abs=0.02)


def test_a_time_limit_does_not_end_the_return(open_game):
    """The same state for ever with a reward of 1: its value is 2. If the limit were a terminal, it would be 5/3."""
    (value,) = learnt_values(open_game((Moment(1.0),), time_limit=5), 1)
    assert value == pytest.approx(2.0, abs=0.02)


def test_a_score_is_the_return_of_each_environments_first_episode(open_game):
    """First episodes of three, two and one steps. The whole of each counts, lost lives and all, and nothing after it,
    though the shorter ones are followed by others before the longest ends."""
    script = (Moment(3.0, lives=2), Moment(-0.5, lives=1), Moment(10.0, lives=0, terminated=True))
    row = evaluate(new_context(), None, open_game(script, lives=3, staggered=True), 0)
    assert sorted(row["scores"]) == [-0.5 + 10.0, 10.0, 3.0 - 0.5 + 10.0]

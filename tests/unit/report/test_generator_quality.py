"""Measures of generators, against what can be worked out: real states as generated ones, and noise."""

import json
import math

import numpy as np
import pytest
import torch
from conftest import TINY

from reaper.cli.main import main
from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.report import generator_quality
from reaper.report.generator_quality import agreement, covered, measure_generator, rank_correlation
from reaper.report.real_states import RealStates

CONTEXT = Context(with_overrides(ARCADE, TINY), 6, 0, ("test",))


class Fixed:
    """A generator whose states are given."""

    def __init__(self, states):
        self.states = states

    def sample(self, count, rng):
        return self.states[torch.randint(len(self.states), (count,), generator=rng)]


def task_states(level, seed, count=300):
    """A grey screen with one white column somewhere: two tasks are told apart by their grey."""
    states = np.full((count, *CONTEXT.observation.shape), level, dtype=np.uint8)
    states[np.arange(count), ..., np.random.default_rng(seed).integers(16, size=count)] = 255
    return states


REAL = [RealStates(task_states(level, level), task_states(level, level + 1)) for level in (20, 150)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(generator_quality, "UPDATES", 300)
    monkeypatch.setattr(generator_quality, "GENERATED", 600)


def measured(states):
    return measure_generator(CONTEXT, Fixed(torch.from_numpy(states)), CONTEXT.q_network(), REAL, [6, 6])


def test_real_states_are_the_best_generated_ones():
    first, second = measured(np.concatenate([task_states(20, 7), task_states(150, 8)]))
    for found in (first, second):
        assert found["share"] == pytest.approx(0.5, abs=0.1)
        assert min(found["purity"], found["precision"], found["recall"]) > 0.9
        assert found["agreement"] > 0.8  # also with far too few updates, since most weights are left


def test_a_task_that_is_not_generated_is_not_covered():
    first, second = measured(task_states(20, 7))
    assert (first["share"], second["share"]) == (1.0, 0.0)
    assert second["recall"] == 0.0
    assert math.isnan(second["precision"])


def test_agreement_weighs_actions_by_what_they_are_worth():
    states = torch.zeros(2, 1)
    agent = torch.tensor([[0.0, 1.0, 2.0, 99.0], [5.0, 5.0, 5.0, 99.0]])  # the second state does not matter
    chooses = [torch.eye(4)[[action, 0]] for action in range(3)]
    found = [agreement(lambda _, s=student: s, lambda _: agent, states, 3) for student in chooses]
    assert found == [-1.0, 0.0, 1.0]


def test_balls_reach_to_the_fifth_neighbour():
    known = torch.arange(10.0)[:, None]
    assert covered(known, torch.tensor([[-2.9], [0.5], [14.5]])) == pytest.approx(2 / 3)  # the last ball has radius 5
    assert covered(known[:3], known) == 0.0
    assert math.isnan(covered(known, known[:0]))


def test_rank_correlation_is_spearmans():
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 400]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 2, 2, 3, math.nan], [1, 2, 3, 4, 0]) == pytest.approx(0.9486833)
    assert math.isnan(rank_correlation([1, 2], [1, 2]))


def test_the_command_measures_every_generator_of_a_run(tiny_run, tmp_path, capsys):
    assert main(["generator-bench", str(tiny_run), "--json", str(tmp_path / "found.json")]) == 0
    rows = json.loads((tmp_path / "found.json").read_text())
    assert [(row["condition"], row["after"], row["task"]) for row in rows] == [
        ("RePR", after, task) for after in (1, 2, 3) for task in ("catch", "dodge", "frog")[:after]
    ]
    assert rows[-1]["kept"] is None  # the last generator has not been used
    assert "rank correlation" in capsys.readouterr().out


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    assert main(["generator-bench", str(tmp_path)]) == 2
    assert "reaper: " in capsys.readouterr().err

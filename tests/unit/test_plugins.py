"""Retention methods, conditions and tasks of a user: registered by a call, or through entry points."""

from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint

import pytest
from conftest import run_tiny

import reaper
from reaper.errors import UserError
from reaper.plugins import Registry
from reaper.results.runs import read_results
from reaper.retention import RETENTIONS
from reaper.study.conditions import CONDITIONS
from reaper.tasks.arcade import ARCADE
from reaper.tasks.sequence import TASKS


class Pull(reaper.Recall):
    def __init__(self, anchor, strength):
        self.anchor, self.strength = anchor, strength

    def combine(self, new_task, weights, answers=None, *known):
        return new_task.mean() + self.strength * sum(
            (w - a).square().sum() for w, a in zip(weights, self.anchor, strict=True)
        )


@dataclass(frozen=True)
class StayClose(reaper.Retention):
    """The example of CONTRIBUTING.md."""

    strength: float = 1.0
    needs_states = False

    def recall(self, context, memory, knowledge, previous):
        return Pull([p.detach().clone() for p in previous.parameters()], self.strength)

    def remember(self, context, memory, agent, new_states):
        return reaper.Remembered()

    def num_bytes(self, settings, num_actions, num_tasks):
        return 0


@pytest.fixture
def stay_close():
    reaper.register_retention("stay-close", StayClose)
    for strength in (0.0, 1e6):
        name = f"stay-close-{strength:g}"
        reaper.register_condition(reaper.Condition(name, "distillation", StayClose(strength)))
    yield
    del RETENTIONS["stay-close"]
    for name in [name for name in CONDITIONS if name.startswith("stay-close")]:
        del CONDITIONS[name]


def test_a_registered_method_runs_alongside_the_others_and_has_its_effect(tmp_path, stay_close):
    conditions = ["stay-close-0", "stay-close-1e+06", "no-reh"]
    store = run_tiny(tmp_path / "out", conditions, tasks="catch,dodge")
    moved = {}
    for result in read_results(store):
        first, second = (store.stage(digest).tensors("agent") for digest in result.record.memories)
        moved[result.name] = sum((first[name] - second[name]).abs().sum().item() for name in first)
    assert moved["stay-close-0"] == moved["no-reh"]  # the same loss, so the same weights
    assert moved["stay-close-1e+06"] < 0.5 * moved["no-reh"]


def test_entry_points_are_found(monkeypatch):
    point = EntryPoint("from-afar", "test_plugins:StayClose", "reaper.things")
    monkeypatch.setattr("reaper.plugins.entry_points", lambda group: [point] if group == "reaper.things" else [])
    things = Registry("thing", "reaper.things")
    assert things["from-afar"].__name__ == "StayClose"
    assert list(things) == ["from-afar"]
    with pytest.raises(UserError, match="unknown thing 'from-afra'; did you mean 'from-afar'"):
        things["from-afra"]


def test_names_cannot_be_taken_twice():
    with pytest.raises(UserError, match="already registered"):
        reaper.register_retention("ewc", StayClose)


def test_a_method_must_be_registered_before_it_runs():
    with pytest.raises(UserError, match="is not registered"):
        reaper.Condition("x", "distillation", StayClose()).describe()


def test_a_registered_task_is_run(tmp_path):
    reaper.register_task("my-catch", lambda: replace(ARCADE["catch"], name="my-catch", title="My Catch"))
    store = run_tiny(tmp_path / "out", ["no-reh"], tasks="my-catch,dodge")
    assert read_results(store)[0].titles == ["My Catch", "Dodge"]
    del TASKS["my-catch"]

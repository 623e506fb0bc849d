"""Retention methods, conditions and tasks of a user: registered by a call, or through entry points."""

from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint

import pytest
from conftest import plan_tiny, run_tiny

import reaper
from reaper.cli.main import main
from reaper.config.overrides import with_overrides
from reaper.config.presets import PAPER
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

    def combine(self, new_task, weights, outputs=None, *known):
        return new_task.mean() + self.strength * sum(
            (w - a).square().sum() for w, a in zip(weights, self.anchor, strict=True)
        )


@dataclass(frozen=True)
class StayClose(reaper.Retention):
    """Pulls the weights towards those of the previous agent."""

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


def test_its_hyper_parameter_is_a_setting(stay_close):
    """A condition that leaves it open has the default, one that fixes it its own value; a user's value beats both."""
    reaper.register_condition(reaper.Condition("stay-close-open", "distillation", StayClose()))
    names = ["stay-close-open", "stay-close-0"]
    usual = plan_tiny(names, tasks="catch,dodge").chains
    stronger = plan_tiny(names, tasks="catch,dodge", overrides={"stay-close.strength": "0.3"}).chains
    found = [chain.condition.make_retention(chain.settings).strength for chain in (*usual, *stronger)]
    assert found == [1.0, 0.0, 0.3, 0.3]
    assert [chain.memories[1].spec["settings"]["methods"] for chain in stronger] == [
        {"stay-close": {"strength": 0.3}},
        {"stay-close": {"strength": 0.3}},
    ]
    assert "methods" not in usual[0].memories[1].spec["settings"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stay-close.strenght", "1"], "unknown setting 'stay-close.strenght'; did you mean 'stay-close.strength'?"),
        (["--stay-close.strength", "much"], "--stay-close.strength takes float, not 'much'"),
        (["--stay-close.strength", "inf"], "--stay-close.strength must be a finite number, not inf"),
    ],
)
def test_its_hyper_parameter_is_checked_on_the_command_line(stay_close, words, message, capfd):
    assert main(["run", "stay-close-0", "--tasks", "catch", *words]) == 2
    assert capfd.readouterr().err == f"reaper: {message}\n"


def test_a_method_from_an_entry_point_has_settings_too(monkeypatch):
    point = EntryPoint("from-afar", "test_plugins:StayClose", "reaper.retentions")
    monkeypatch.setattr("reaper.plugins.entry_points", lambda group: [point] if group == point.group else [])
    monkeypatch.setattr(RETENTIONS, "_entry_points_read", False)
    settings = with_overrides(PAPER, {"from-afar.strength": "0.3"})
    assert RETENTIONS.configure("from-afar", settings).strength == 0.3
    del RETENTIONS["from-afar"]


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

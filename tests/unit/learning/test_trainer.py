"""The training loop: the order of its calls, how often it updates, and what a step leaves for the next."""

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.learning.short_term import ShortTerm
from reaper.learning.trainer import crossed
from reaper.tasks.sequence import find_task


@pytest.fixture
def learner():
    context = Context(with_overrides(ARCADE, TINY), 6, 0, ("short-term", "catch"))
    learner = ShortTerm(context, find_task("catch"))
    learner.experience.reset(0)
    yield learner
    learner.close()


@pytest.mark.parametrize(("before", "after", "expected"), [(0, 32, False), (96, 128, True), (128, 160, False)])
def test_an_interval_is_crossed_at_its_multiples(before, after, expected):
    assert crossed(128, before, after) is expected


def test_an_interval_is_crossed_as_often_as_it_fits():
    assert sum(crossed(100, step, step + 32) for step in range(0, 3200, 32)) == 32


def test_a_step_is_stored_during_the_next_one(learner):
    trainer, replay = learner.trainer, learner.experience.replay
    trainer.step()
    assert replay.size.tolist() == [0] * 4
    trainer.step()
    assert replay.size.tolist() == [1] * 4
    trainer.flush()
    assert replay.size.tolist() == [2] * 4
    assert trainer.pending is None


def test_flushing_twice_stores_once(learner):
    learner.trainer.step()
    for _ in range(2):
        learner.trainer.flush()
    assert learner.experience.replay.size.tolist() == [1] * 4
    assert learner.context.progress.done == 4


def test_updates_start_when_the_replay_holds_enough(learner):
    """Steps of 4 environments, one update per 4 agent steps, and learning starts at 40 agent steps."""
    trainer, made = learner.trainer, []
    for _ in range(13):
        trainer.step()
        made.append(learner.best.losses)
    assert made == [0] * 10 + [1, 2, 3]


def test_environments_start_before_the_learner_works(learner, monkeypatch):
    calls = []
    actor, trainer = learner.experience.actor, learner.trainer

    def spy(owner, name):
        original = getattr(owner, name)

        def called(*args, **options):
            calls.append(name)
            return original(*args, **options)

        monkeypatch.setattr(owner, name, called)

    spy(actor.envs, "send")
    spy(learner.experience.replay, "add")
    spy(trainer.learner, "learn")
    spy(actor.statistics, "add")
    spy(actor.envs, "receive")
    for _ in range(12):
        trainer.step()
    assert calls[:2] == ["send", "receive"]
    assert calls[-5:] == ["send", "add", "learn", "add", "receive"]


def test_a_state_restores_every_part(learner):
    for _ in range(12):
        learner.trainer.step()
    state = learner.trainer.state()
    context = Context(learner.context.settings, 6, 0, ("short-term", "catch"))
    resumed = ShortTerm(context, find_task("catch"))
    resumed.q_learning.parts.restore(learner.q_learning.parts.state())
    resumed.trainer.restore(state)
    for each in (learner, resumed):
        each.trainer.step()
        each.trainer.flush()
    resumed.close()
    assert torch.equal(resumed.trainer.weights.values, learner.trainer.weights.values)
    assert torch.equal(resumed.experience.replay.frames, learner.experience.replay.frames)


def test_the_learning_rate_is_annealed_over_the_last_share_of_training():
    """80 agent steps, 4 at a time, of which the last half are annealed; learning starts at 40."""
    settings = with_overrides(ARCADE, {**TINY, "optimiser.annealing": 0.5})
    context = Context(settings, 6, 0, ("short-term", "catch"))
    learner = ShortTerm(context, find_task("catch"))
    trainer, factors = learner.trainer, []
    learn = trainer.learner.learn

    def noted(updates):
        assert trainer.learner.optimiser.rate_factor is not None
        factors.append(float(trainer.learner.optimiser.rate_factor))
        learn(updates)

    trainer.learner.learn = noted
    trainer.total_steps = 80
    trainer.train_to(80)
    learner.close()
    assert factors == pytest.approx([1 - done / 40 for done in range(0, 40, 4)])

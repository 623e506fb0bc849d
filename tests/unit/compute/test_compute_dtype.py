"""Compiled updates round maps and kernels where a processor gains by it, and learn the same but for rounding."""

import pytest
import torch

from reaper.compute import update as update
from reaper.compute.compilation import can_compile, compute_dtype_for
from reaper.config.overrides import with_overrides
from reaper.config.presets import PAPER
from reaper.context import Context
from reaper.generators import generator_for
from reaper.generators.gan import training as adversarial
from reaper.learning import short_term
from reaper.learning.short_term import QLearning, ShortTerm
from reaper.memory.items import Items
from reaper.tasks.sequence import find_task

CPU = torch.device("cpu")
rounds_here = pytest.mark.skipif(compute_dtype_for(CPU) is None, reason="this processor is no quicker with bf16")
FEW = {
    "training.num_envs": 8,
    "training.replay-capacity": 1600,
    "training.learning-starts": 160,
    "optimiser.learning-rate": 0.01,
}


@pytest.mark.parametrize(
    ("features", "rounds"),
    [
        ({"avx512_bf16": True, "cpu_name": "AMD EPYC"}, True),
        ({"avx512_bf16": False, "cpu_name": "AMD EPYC"}, False),
        ({"avx512_bf16": True, "cpu_name": "Intel Xeon"}, False),
        ({"avx512_bf16": True, "amx_tile": True, "cpu_name": "Intel Xeon"}, False),
        ({"architecture": "aarch64"}, False),
    ],
)
def test_some_processors_multiply_rounded_numbers_quicker(features, rounds, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    assert compute_dtype_for(CPU) == (torch.bfloat16 if rounds else None)


def test_an_older_torch_does_not_know_the_processor(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert compute_dtype_for(CPU) is None


def learner(compiles):
    context = Context(with_overrides(PAPER, FEW), 18, 0, ("test",), CPU, compiles=compiles)
    return ShortTerm(context, find_task("ALE/Boxing-v5"))


def adversaries(compiles):
    context = Context(with_overrides(PAPER, {"gan.batch-size": 16}), 18, 0, ("gan",), CPU, compiles=compiles)
    states = torch.randint(0, 256, (16, 4, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return generator_for(context.settings).training(context, Items(states), Items(states.flip(0)), 2)


def test_only_runs_that_are_worth_compiling_round(monkeypatch):
    for module in (update, short_term, adversarial):
        monkeypatch.setattr(module, "compute_dtype_for", lambda device: torch.bfloat16)
    for compiles in (False, True):
        found = learner(compiles)
        found.close()
        q_learning = QLearning(found.context, found.network, found.trainer.weights, found.replay)
        expected = torch.bfloat16 if compiles else None
        assert (found.trainer.update.rounding, q_learning.rounding) == (expected, expected)
        training = adversaries(compiles)
        assert (training.update_d.rounding, training.update_g.rounding) == (expected, expected)
        assert training.pair.rounding["compute_dtype"] == expected


@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
@rounds_here
def test_rounded_updates_go_the_same_way_but_for_rounding():
    """The same games, the same batch: the target network's answers, and one update."""
    targets, steps = [], []
    for compiles in (False, True):
        found = learner(compiles)
        trainer, before = found.trainer, found.trainer.weights.values.clone()
        trainer.run_to(FEW["training.learning-starts"])  # no update yet
        found.close()
        assert torch.equal(trainer.weights.values, before)
        (batch,) = trainer.draw(1)
        trainer.update(*batch)
        targets.append(batch[-1])
        steps.append(trainer.weights.values - before)
    assert not torch.equal(*targets)  # rounded indeed
    torch.testing.assert_close(*targets, rtol=1e-2, atol=1e-4)
    exact, rounded = steps
    assert exact.abs().max() > 1e-4
    assert (exact - rounded).norm() < 0.01 * exact.norm()


@rounds_here
def test_rounded_adversaries_go_the_same_way_but_for_rounding():
    """The same batches; Adam's mean is the gradient itself, its first decay being zero."""
    plain, rounded = adversaries(False), adversaries(True)
    for training in (plain, rounded):
        training.begin()
        training.both()
    assert not torch.equal(plain.last_losses, rounded.last_losses)
    torch.testing.assert_close(plain.last_losses, rounded.last_losses, rtol=1e-2, atol=1e-3)
    for one, other in ((plain.update_d, rounded.update_d), (plain.update_g, rounded.update_g)):
        exact, found = one.optimiser.mean, other.optimiser.mean
        assert (exact - found).norm() < 0.06 * exact.norm()

"""Compiled updates use bf16 where a processor gains by it, and learn the same up to rounding."""

import pytest
import torch

from reaper.compute.compilation import can_compile, compute_dtype_for
from reaper.config.overrides import with_overrides
from reaper.config.presets import PAPER
from reaper.context import Context
from reaper.generators import generator_for
from reaper.learning.short_term import ShortTerm
from reaper.memory.items import Items
from reaper.tasks.sequence import find_task

CPU = torch.device("cpu")
BF16 = torch.bfloat16
needs_fast_bf16 = pytest.mark.skipif(compute_dtype_for(CPU) is None, reason="bf16 is no faster on this processor")
FEW = {
    "training.num_envs": 8,
    "training.replay-capacity": 1600,
    "training.learning-starts": 160,
    "optimiser.learning-rate": 0.01,
}


@pytest.mark.parametrize(
    ("features", "fast"),
    [
        ({"avx512_bf16": True, "cpu_name": "AMD EPYC"}, True),
        ({"avx512_bf16": False, "cpu_name": "AMD EPYC"}, False),
        ({"avx512_bf16": True, "cpu_name": "Intel Xeon"}, False),
        ({"avx512_bf16": True, "amx_tile": True, "cpu_name": "Intel Xeon"}, False),
        ({"architecture": "aarch64"}, False),
    ],
)
def test_processors_with_fast_bf16(features, fast, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    assert compute_dtype_for(CPU) == (BF16 if fast else None)


def test_an_older_torch_that_does_not_report_capabilities(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert compute_dtype_for(CPU) is None


def learner(dtype):
    options = {"compiles": dtype is not None, "compute_dtype": dtype}
    context = Context(with_overrides(PAPER, FEW), 18, 0, ("test",), CPU, **options)
    return ShortTerm(context, find_task("ALE/Boxing-v5"))


def adversaries(dtype):
    settings = with_overrides(PAPER, {"gan.batch-size": 16})
    context = Context(settings, 18, 0, ("gan",), CPU, compiles=dtype is not None, compute_dtype=dtype)
    states = torch.randint(0, 256, (16, 4, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return generator_for(context.settings).training(context, Items(states), Items(states.flip(0)), 2)


@pytest.mark.parametrize("dtype", [None, BF16])
def test_everything_uses_the_compute_dtype_of_the_context(dtype):
    found = learner(dtype)
    found.close()
    assert (found.trainer.learner.update.compute_dtype, found.q_learning.compute_dtype) == (dtype, dtype)
    training = adversaries(dtype)
    assert (training.update_d.compute_dtype, training.update_g.compute_dtype) == (dtype, dtype)
    assert training.pair.compute_dtype["compute_dtype"] == dtype


@pytest.mark.long
@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
@needs_fast_bf16
def test_bf16_updates_agree_up_to_rounding():
    """The same environments and the same batch: the targets, and one update."""
    targets, steps = [], []
    for dtype in (None, BF16):
        found = learner(dtype)
        trainer, before = found.trainer, found.trainer.weights.values.clone()
        trainer.train_to(FEW["training.learning-starts"])  # no update yet
        found.close()
        assert torch.equal(trainer.weights.values, before)
        (batch,) = found.q_learning.sample(1)
        trainer.learner.update(*batch)
        targets.append(batch[-1])
        steps.append(trainer.weights.values - before)
    assert not torch.equal(*targets)  # bf16 indeed
    torch.testing.assert_close(*targets, rtol=1e-2, atol=1e-4)
    exact, cast = steps
    assert exact.abs().max() > 1e-4
    assert (exact - cast).norm() < 0.01 * exact.norm()


@needs_fast_bf16
def test_bf16_adversarial_updates_agree_up_to_rounding():
    """The same batches; Adam's mean is the gradient itself, because beta1 is zero."""
    plain, cast = adversaries(None), adversaries(BF16)
    for training in (plain, cast):
        training.begin()
        training.both()
    assert not torch.equal(plain.last_losses, cast.last_losses)
    torch.testing.assert_close(plain.last_losses, cast.last_losses, rtol=1e-2, atol=1e-3)
    for one, other in ((plain.update_d, cast.update_d), (plain.update_g, cast.update_g)):
        exact, found = one.optimiser.mean, other.optimiser.mean
        assert (exact - found).norm() < 0.06 * exact.norm()

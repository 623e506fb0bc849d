"""Compiled updates equal eager ones, update by update."""

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from reaper.compute.compilation import (
    can_compile,
    compiled,
    compute_dtype_for,
    flush_denormals,
    skip_guards,
)
from reaper.compute.optimiser import FlatWeights
from reaper.compute.update import Update
from reaper.config.overrides import at_fraction, with_overrides
from reaper.config.presets import ARCADE, PAPER
from reaper.context import Context, compile_options, state_tensors
from reaper.generators import generator_for
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import ShortTerm
from reaper.learning.teachers import DQNTeacher
from reaper.memory.items import Items
from reaper.memory.long_term import LongTermMemory
from reaper.networks.convolutional import ConvQNetwork
from reaper.retention.ewc import OnlineEWC
from reaper.state import clone_state
from reaper.study import stages
from reaper.study.conditions import CONDITIONS
from reaper.tasks.observation import state_spec
from reaper.tasks.sequence import find_task

ATARI_STATE = state_spec(PAPER.observation)

LARGE_FRAMES = {
    "training.num_envs": 4,
    "training.batch-size": 8,
    "training.replay-capacity": 400,
    "training.learning-starts": 40,
    "short-term.agent-steps": 96,
    "short-term.target-update-interval": 32,
    "evaluation.episodes": 1,
    "optimiser.learning-rate": 0.1,  # the paper's moves nothing in so few updates
}
CONSOLIDATION = {
    "long-term.agent-steps": 96,
    "long-term.best-window": 96,
    "generator.pseudo-items": 40,
    "gan.steps": 2,
    "gan.batch-size": 2,
    "fisher.batches": 1,
    "evaluation.interval": 1000,
    "optimiser.learning-rate": 0.05,
}


def weights_after(compiles):
    settings = with_overrides(PAPER, LARGE_FRAMES)
    context = Context(settings, 18, 0, ("test",), torch.device("cpu"), compiles=compiles)
    learner = ShortTerm(context, find_task("ALE/Boxing-v5"))
    learner.trainer.train_to(settings.short_term.agent_steps)
    learner.close()
    assert learner.best.losses > 0
    return learner.trainer.weights.values.clone(), FlatWeights(context.q_network()).values


@pytest.mark.long
@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
def test_compiled_updates_equal_eager_ones():
    eager, before = weights_after(False)
    compiled, _ = weights_after(True)
    moved = (eager - before).abs().max()
    assert moved > 1e-4
    assert (eager - compiled).abs().max() < 1e-3 * moved


@pytest.mark.long
@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
def test_deferred_weight_gradients_are_the_same():
    """As on a GPU, which computes them concurrently."""
    from reaper.compute.concurrent_gradients import DeferWeightGradients

    seen = []

    class Watched(DeferWeightGradients):
        def __call__(self, graph):
            super().__call__(graph)
            seen.extend(node for node in graph.nodes if "weight_gradients" in str(node.target))

        def uuid(self):
            return None  # or a second run would take the graph from the cache

    torch.manual_seed(0)
    network = ConvQNetwork(ATARI_STATE, 6)
    network.space_to_depth = True
    states, wanted = torch.randint(0, 256, (8, 4, 84, 84), dtype=torch.uint8), torch.randn(8, 6)
    weights = FlatWeights(network)

    def gradients(values):
        def loss(parameters):
            named = dict(zip(weights.names, parameters, strict=True))
            return (torch.func.functional_call(network, named, (states,)) - wanted).square().mean()

        return torch.func.grad(loss)(values)

    values = weights.views(weights.values)
    deferred = torch.compile(gradients, fullgraph=True, options={"post_grad_custom_post_pass": Watched()})(values)
    (node,) = seen
    output_gradients, _, _, _, lefts, _ = node.args
    assert (len(output_gradients), len(lefts)) == (3, 1)  # three convolutions and the hidden layer
    for found, expected in zip(deferred, gradients(values), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_runs_are_compiled_only_where_it_pays(monkeypatch):
    monkeypatch.setattr("reaper.context.can_compile", lambda device: True)
    cpu = torch.device("cpu")
    assert compile_options(PAPER, cpu) == {"compiles": True, "compute_dtype": compute_dtype_for(cpu)}
    uncompiled = {"compiles": False, "compute_dtype": None}
    assert compile_options(ARCADE, cpu) == uncompiled
    assert compile_options(at_fraction(PAPER, 0.0005), cpu) == uncompiled
    monkeypatch.setattr("reaper.context.can_compile", lambda device: False)
    assert compile_options(PAPER, cpu) == uncompiled


def test_a_function_that_cannot_be_traced_runs_uncompiled():
    def untraceable(values):
        return values * (2.0 if float(values.sum()) > 0 else -1.0)  # a branch on a tensor

    run = compiled(untraceable, torch.device("cpu"))
    with pytest.warns(UserWarning, match="untraceable runs uncompiled"):
        assert run(torch.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert run(torch.tensor([-1.0])).tolist() == [1.0]


def test_options_reach_the_function_by_name():
    def untraceable(values, double=False):
        return values * (2.0 if double and float(values.sum()) > 0 else 1.0)

    run = compiled(untraceable, torch.device("cpu"))
    with pytest.warns(UserWarning, match="runs uncompiled"):
        assert run(torch.tensor([1.0, 2.0]), double=True).tolist() == [2.0, 4.0]
    assert run(torch.tensor([1.0, 2.0]), double=False).tolist() == [1.0, 2.0]


@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
def test_changes_between_two_steps_are_noticed():
    loss = SimpleNamespace(factor=2.0)
    run = compiled(lambda values: values * loss.factor, torch.device("cpu"))
    for factor in (2.0, 3.0):
        loss.factor = factor
        found = [run(torch.ones(4))[0].item()]
        with skip_guards():
            found += [run(torch.ones(4))[0].item() for _ in range(2)]
        assert found == [factor] * 3


COMPILES = """
import warnings
import torch
from reaper.compute.compilation import compiled
def doubled(numbers):
    return (numbers * 2).relu()
warnings.filterwarnings("error", message=".*runs uncompiled")
print(compiled(doubled, torch.device("cpu"))(torch.ones(3)).tolist())
"""


@pytest.mark.long
@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
def test_a_truncated_file_in_torchs_cache_only_costs_time(tmp_path):
    """As left behind by a process that was killed while compiling."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}

    def run():
        words = [sys.executable, "-c", COMPILES]
        ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200)
        assert ran.stdout == "[2.0, 2.0, 2.0]\n", ran.stderr

    run()
    built = list((tmp_path / "cache").rglob("*.so"))
    assert built
    for path in built:
        path.write_bytes(path.read_bytes()[:100])
    run()
    assert not list(tmp_path.glob("reaper-compiled-*"))  # the second run tidies up


@pytest.mark.long
@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
@pytest.mark.filterwarnings("error:.*runs uncompiled")
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, None) for name in ("RePR", "ewc", "online-ewc", "PR", "DGDMN", "RePR-policy-short", "no-reh")]
    + [(name, torch.bfloat16) for name in ("RePR", "PR", "ewc")],
)
def test_every_kind_of_consolidation_compiles(name, dtype):
    if dtype and compute_dtype_for(torch.device("cpu")) is None:
        pytest.skip("bf16 is no faster on this processor")
    settings = with_overrides(PAPER, {**LARGE_FRAMES, **CONSOLIDATION})
    condition, agents = CONDITIONS[name], []
    for compiles in (False, True):
        torch.compiler.reset()
        options = {"compiles": compiles, "compute_dtype": dtype if compiles else None}
        context = Context(settings, 18, 0, ("test",), torch.device("cpu"), **options)
        teacher = DQNTeacher(context, context.q_network().state_dict(), 0.0, 1.0)
        other = replace(context, names=("another",))
        start = state_tensors(other.q_network())
        generator = generator_for(settings).untrained(context).state()
        consolidation = Consolidation(
            context,
            (find_task("ALE/Boxing-v5"), find_task("ALE/Pong-v5")),
            condition.make_objective(),
            condition.make_retention(settings),
            condition.make_knowledge(),
            teacher,
            generator,
        )
        memory = LongTermMemory(start, ("ALE/Boxing-v5",), retained(condition.retention, start, generator))
        agents.append(consolidation.run(memory).memory.agent)
    moved = max(float((agents[0][key] - start[key]).abs().max()) for key in start)
    apart = max(float((agents[0][key] - agents[1][key]).abs().max()) for key in start)
    assert moved > 1e-4
    assert apart < (0.1 if dtype else 1e-2) * moved


def retained(retention, agent, generator):
    """What a long-term memory of the method holds of one earlier task."""
    fisher = {key: torch.full_like(value, 0.1) for key, value in agent.items()}
    parts = {f"generator.{key}": value for key, value in generator.items()}
    prefix = "fisher" if isinstance(retention, OnlineEWC) else "fisher.0"
    return parts | {f"{prefix}.{key}": value for key, value in fisher.items()}


@pytest.mark.long
@pytest.mark.skipif(not can_compile("cpu"), reason="no C++ compiler")
def test_compiled_adversarial_updates_equal_eager_ones():
    """Both losses, second derivatives and running statistics; Adam's mean is the gradient, because beta1 is zero."""
    context = Context(with_overrides(ARCADE, {"gan.batch-size": 8}), 6, 0, ("gan",))
    states = torch.randint(0, 256, (40, 2, 16, 16), dtype=torch.uint8)
    eager, fast = (
        generator_for(context.settings).training(context, Items(states), Items(states.flip(0)), 2) for _ in range(2)
    )
    for training in (eager, fast):
        training.pair.generator.train()
    pair = fast.pair
    fast.update_d = Update(fast.update_d.weights, fast.update_d.optimiser, pair.discriminator_loss, compiles=True)
    fast.update_g = Update(fast.update_g.weights, fast.update_g.optimiser, pair.generator_loss, compiles=True)
    for _ in range(3):
        fast.parts.restore(clone_state(eager.parts.state()))
        eager.both()
        fast.both()
        torch.testing.assert_close(fast.last_losses, eager.last_losses, rtol=1e-4, atol=1e-5)
        for one, other in ((fast.update_d, eager.update_d), (fast.update_g, eager.update_g)):
            assert (one.optimiser.mean - other.optimiser.mean).norm() < 1e-3 * other.optimiser.mean.norm()
        for one, other in zip(pair.generator.buffers(), eager.pair.generator.buffers(), strict=True):
            torch.testing.assert_close(one, other)


def denormal():
    return torch.full((20,), 1e-30).mul(1e-10).max().item()


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="threads may inherit another mode there"
)
def test_a_stage_flushes_denormals_and_nothing_else_does(monkeypatch):
    seen = []

    def look(run):
        with ThreadPoolExecutor(1) as pool:
            seen.extend([denormal(), pool.submit(denormal).result()])
        raise InterruptedError

    monkeypatch.setattr(stages, "KINDS", {"look": SimpleNamespace(run=look)})
    with pytest.raises(InterruptedError):
        stages._run(SimpleNamespace(kind="look"), SimpleNamespace(device=torch.device("cpu")))
    assert seen == [0.0, 0.0]
    assert denormal() > 0


def test_a_mode_that_was_set_before_stays_set():
    torch.set_flush_denormal(True)
    try:
        with flush_denormals():
            pass
        assert denormal() == 0
    finally:
        torch.set_flush_denormal(False)

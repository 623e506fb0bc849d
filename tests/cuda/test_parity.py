"""On a GPU: recorded work does what the same work does when it is run kernel by kernel. Skipped without one."""

import contextlib
from dataclasses import replace

import pytest
import torch
from conftest import TINY

from reaper.compute.cuda_graph import capture_graph
from reaper.compute.optimiser import FlatWeights, agent_optimiser
from reaper.compute.stream_gate import new_stream_gate
from reaper.compute.update import Update
from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE, PAPER
from reaper.context import Context, state_tensors
from reaper.equations import dqn_loss
from reaper.generators import generator_for
from reaper.learning.actor import Actor
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import ShortTerm
from reaper.learning.trainer import Trainer
from reaper.memory import items
from reaper.memory.items import Items
from reaper.state import Parts, clone_state, flatten, unflatten
from reaper.study.conditions import CONDITIONS
from reaper.tasks.sequence import find_task

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
ATARI = {
    "training.num_envs": 8,
    "training.replay-capacity": 1600,
    "training.learning-starts": 160,
    "short-term.agent-steps": 640,
    "short-term.target-update-interval": 160,
    "short-term.best-window": 320,
    "evaluation.episodes": 2,
    "evaluation.interval": 100_000,
    "optimiser.learning-rate": 0.01,
}


@pytest.fixture(autouse=True)
def the_same_sums():
    """TF32 rounds differently from kernel to kernel, and some gradients are summed in the order in which threads come:
    an agent that acts on either soon plays another game."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


@pytest.fixture
def kernel_by_kernel(monkeypatch):
    """Switches recording off."""

    def switch():
        for kind in (Actor, Trainer):
            before = kind.__init__

            def begin(self, *words, before=before, **named):
                before(self, *words, **named)
                self.records = False

            monkeypatch.setattr(kind, "__init__", begin)

    return switch


def context(settings, *names, compiles=False):
    return Context(
        settings, 6 if settings.observation.frame_size < 36 else 18, 0, names, torch.device("cuda"), compiles=compiles
    )


def taught(settings, task, frames, compiles=False):
    learner = ShortTerm(context(settings, "short-term", task, compiles=compiles), find_task(task))
    learner.trainer.run_to(frames)
    learner.close()
    assert learner.best.losses > 0
    return learner.trainer.weights.values.clone(), float(learner.best.loss_sum)


def test_recorded_q_learning_on_small_frames(kernel_by_kernel):
    settings = with_overrides(ARCADE, TINY)
    capture_graph, loss = taught(settings, "catch", 120)
    kernel_by_kernel()
    plain, plain_loss = taught(settings, "catch", 120)
    assert loss == pytest.approx(plain_loss, rel=1e-4)
    torch.testing.assert_close(capture_graph, plain, rtol=1e-4, atol=1e-6)


def test_compiled_and_recorded_q_learning_at_atari_size(kernel_by_kernel):
    settings = with_overrides(PAPER, ATARI)
    frames = 200  # ten updates: one differing action later, two runs have little in common
    capture_graph, loss = taught(settings, "ALE/Boxing-v5", frames, compiles=True)
    kernel_by_kernel()
    plain, plain_loss = taught(settings, "ALE/Boxing-v5", frames)
    assert loss == pytest.approx(plain_loss, rel=1e-3)
    torch.testing.assert_close(capture_graph, plain, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("name", ["RePR", "ewc", "online-ewc", "reh", "PR", "no-reh"])
def test_recorded_consolidation(name, kernel_by_kernel):
    settings = with_overrides(ARCADE, TINY)

    def consolidated():
        # Not one teacher for both: a student that knows all has no gradient but rounding, and Adam steps on that.
        teachers = {t: ShortTerm(context(settings, "short-term", t), find_task(t)).learn() for t in ("catch", "dodge")}
        condition, memory = CONDITIONS[name], None
        for tasks in (("catch",), ("catch", "dodge")):
            found = tuple(find_task(task) for task in tasks)
            consolidation = Consolidation(
                context(settings, "consolidate", *tasks),
                found,
                condition.make_objective(),
                condition.make_retention(settings),
                condition.make_knowledge(),
                teachers[tasks[-1]],
            )
            memory = consolidation.run(memory).memory
        return memory

    capture_graph = consolidated()
    kernel_by_kernel()
    plain = consolidated()
    for weights, others in zip(capture_graph.agent.values(), plain.agent.values(), strict=True):
        torch.testing.assert_close(weights, others, rtol=1e-3, atol=1e-4)


def test_compiled_and_recorded_adversaries_at_atari_size():
    """Both losses of the GAN, update by update, against plain layers with second derivatives. Adam's first decay is
    zero, so its mean is the gradient itself; weights would tell less, since Adam steps on rounding, too."""
    settings = with_overrides(PAPER, {"gan.batch-size": 16})
    assert generator_for(settings).beta1 == 0
    states = torch.randint(0, 256, (64, 4, 84, 84), dtype=torch.uint8, device="cuda")

    def training(compiles):
        items = Items(states), Items(states.flip(0))
        return generator_for(settings).training(context(settings, "gan", compiles=compiles), *items, 2)

    quick, plain = training(True), training(False)
    for network in (plain.pair.generator, plain.pair.discriminator):
        network.space_to_depth = False
        network.train()
    quick.begin()
    for _ in range(3):
        state = clone_state(plain.parts.state())
        quick.parts.restore(state)
        quick.step()
        plain.both()
        torch.testing.assert_close(quick.last_losses, plain.last_losses, rtol=1e-3, atol=1e-3)
        for fast, slow in ((quick.update_d, plain.update_d), (quick.update_g, plain.update_g)):
            gradient, expected = fast.optimiser.mean, slow.optimiser.mean
            assert (gradient - expected).norm() < 0.01 * expected.norm()
        assert torch.equal(*(found.pair.rng.get_state() for found in (quick, plain)))
        for buffer, other in zip(quick.pair.generator.buffers(), plain.pair.generator.buffers(), strict=True):
            torch.testing.assert_close(buffer, other, rtol=1e-3, atol=1e-4)


def test_gradients_of_weights_side_by_side_are_those_one_after_another():
    """As they are used: rounded, compiled, recorded. Kernels may be other ones, so they agree but for rounding."""
    found = context(PAPER, "side by side", compiles=True)
    count, size = 4, PAPER.training.batch_size
    states = torch.randint(0, 256, (count, size, 4, 84, 84), dtype=torch.uint8, device="cuda")
    actions = torch.randint(0, 18, (count, size), device="cuda")
    targets = torch.randn(count, size, device="cuda")

    def moved(concurrent):
        torch.compiler.reset()  # or the second would find the code of the first
        weights = FlatWeights(found.q_network())
        optimiser, before = agent_optimiser(PAPER.optimiser, weights), weights.values.clone()

        def loss(forward, weights, states, actions, targets):
            return dqn_loss(forward(states), actions, targets)

        options = {"compiles": True, "compute_dtype": torch.bfloat16, "concurrent_gradients": concurrent}
        update = Update(weights, optimiser, loss, max_grad_norm=PAPER.optimiser.max_grad_norm, **options)

        def work():
            for batch in zip(states, actions, targets, strict=True):
                update(*batch)

        again = capture_graph(work, Parts(weights=weights, optimiser=optimiser))
        for _ in range(5):
            again()
        return weights.values - before

    apart, in_turn = moved(True), moved(False)
    assert in_turn.norm() > 0
    assert (apart - in_turn).norm() < 0.05 * in_turn.norm()


def test_a_gate_holds_up_one_stream_until_its_block_is_over():
    gate, stream, numbers = new_stream_gate(), torch.cuda.Stream(), torch.zeros(4, device="cuda")
    assert gate is not None
    for round_, error in ((1, None), (2, ValueError)):
        with contextlib.suppress(ValueError), gate.closed(stream):
            with torch.cuda.stream(stream):
                numbers.add_(1.0)
            assert float(torch.ones((), device="cuda")) == 1.0  # other streams go on
            assert not stream.query()
            if error:
                raise error
        stream.synchronize()
        assert numbers.tolist() == [round_] * 4


def test_items_that_do_not_fit_are_drawn_from_pinned_memory(monkeypatch):
    states = torch.randint(0, 256, (500, 4, 84, 84), dtype=torch.uint8)
    near = Items.on(torch.device("cuda"), states)
    monkeypatch.setattr(items, "free_bytes", lambda device: 0)
    far = Items.on(torch.device("cuda"), states)
    assert far.states.is_cuda
    before = torch.cuda.memory_allocated()
    more = Items.on(torch.device("cuda"), states)
    assert torch.cuda.memory_allocated() == before  # it lies elsewhere
    draw = [found.sample_states(64, torch.Generator("cuda").manual_seed(1)) for found in (near, far, more)]
    assert torch.equal(draw[0], draw[1])
    assert torch.equal(draw[0], draw[2])
    network = context(PAPER, "items").q_network()
    torch.testing.assert_close(far.with_targets(network).targets, near.with_targets(network).targets)


def test_a_checkpoint_brings_back_every_bit_on_a_gpu():
    """What comes after may differ in rounding (cuDNN and cuBLAS choose their kernels anew); what was saved may not."""
    settings = with_overrides(ARCADE, TINY)

    def learner():
        found = ShortTerm(context(settings, "short-term", "catch"), find_task("catch"))
        return found, Parts(trainer=found.trainer, q_learning=found.trainer.drawing)

    first, parts = learner()
    first.trainer.run_to(100)
    first.trainer.actor.begin(7)
    for _ in range(3):
        first.trainer.step()
    tensors, others = flatten(clone_state(parts.state()))
    second, again = learner()
    again.restore(unflatten({**{name: tensor.cpu() for name, tensor in tensors.items()}, **others}))
    restored, other_leaves = flatten(again.state())
    assert others == other_leaves
    for name, tensor in tensors.items():
        assert torch.equal(tensor.cpu(), restored[name].cpu()), name
    first.trainer.step()
    second.trainer.step()
    streams = [found.trainer.rng.get_state() for found in (first, second)]
    assert torch.equal(*streams)
    assert torch.equal(first.trainer.actor.stack, second.trainer.actor.stack)
    torch.testing.assert_close(first.trainer.weights.values, second.trainer.weights.values, rtol=1e-4, atol=1e-6)


def test_tests_beside_a_gpu_are_those_of_a_cpu():
    settings = with_overrides(ARCADE, TINY)
    there = replace(context(settings, "short-term", "catch"), concurrent_eval=True)
    here, catch = replace(there, device=torch.device("cpu"), concurrent_eval=False), find_task("catch")
    learner = ShortTerm(there, catch)
    with learner.trainer.evaluator as evaluator:
        learner.trainer.run("learn catch", 120, [catch])
        expected = evaluate(here, here.q_network(state_tensors(learner.network)), catch, 120)
        assert evaluator.finish() == [expected]
    learner.close()

"""On a GPU: captured work equals the same work launched kernel by kernel. Skipped without one."""

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
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.long_term import Consolidation
from reaper.learning.short_term import ShortTerm
from reaper.learning.teachers import DQNTeacher
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
def deterministic_sums():
    """TF32 rounds differently from kernel to kernel, and some kernels sum in the order in which threads finish: agents
    that act on either soon see different states."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


def new_context(settings, *names, **options):
    num_actions = 6 if settings.observation.frame_size < 36 else 18
    return Context(settings, num_actions, 0, names, torch.device("cuda"), **options)


def trained(settings, task, agent_steps, **options):
    """The weights after training, and the sum of losses."""
    learner = ShortTerm(new_context(settings, "short-term", task, **options), find_task(task))
    learner.trainer.train_to(agent_steps)
    learner.close()
    assert learner.best.losses > 0
    return learner.trainer.weights.values.clone(), float(learner.best.loss_sum)


def test_captured_q_learning_on_small_frames():
    settings = with_overrides(ARCADE, TINY)
    captured, loss = trained(settings, "catch", 120)
    plain, plain_loss = trained(settings, "catch", 120, cuda_graphs=False)
    assert loss == pytest.approx(plain_loss, rel=1e-4)
    torch.testing.assert_close(captured, plain, rtol=1e-4, atol=1e-6)


def test_compiled_and_captured_q_learning_at_atari_size():
    settings = with_overrides(PAPER, ATARI)
    agent_steps = 200  # ten updates: one differing action later, two runs have little in common
    captured, loss = trained(settings, "ALE/Boxing-v5", agent_steps, compiles=True)
    plain, plain_loss = trained(settings, "ALE/Boxing-v5", agent_steps, cuda_graphs=False)
    assert loss == pytest.approx(plain_loss, rel=1e-3)
    torch.testing.assert_close(captured, plain, rtol=1e-2, atol=1e-4)


def consolidated(settings, name, **options):
    """The long-term memory of a condition after two tasks."""
    condition, memory = CONDITIONS[name], None
    for tasks in (("catch",), ("catch", "dodge")):
        task = find_task(tasks[-1])
        # A teacher for each task: a student that knows everything has no gradient but rounding, and Adam steps on that.
        agent = ShortTerm(new_context(settings, "short-term", task.name, **options), task).learn()
        context = new_context(settings, "consolidate", *tasks, **options)
        consolidation = Consolidation(
            context=context,
            tasks=tuple(find_task(name) for name in tasks),
            objective=condition.make_objective(),
            retention=condition.make_retention(settings),
            knowledge=condition.make_knowledge(),
            teacher=DQNTeacher(context, agent.weights, agent.value_mean, agent.value_std),
        )
        memory = consolidation.run(memory).memory
    return memory


@pytest.mark.parametrize("name", ["RePR", "ewc", "online-ewc", "reh", "PR", "no-reh"])
def test_captured_consolidation(name):
    settings = with_overrides(ARCADE, TINY)
    captured, plain = consolidated(settings, name), consolidated(settings, name, cuda_graphs=False)
    for weights, others in zip(captured.agent.values(), plain.agent.values(), strict=True):
        torch.testing.assert_close(weights, others, rtol=1e-3, atol=1e-4)


def test_compiled_and_captured_adversaries_at_atari_size():
    """Both losses of the GAN, update by update, against plain layers with second derivatives. Adam's mean is the
    gradient itself, because beta1 is zero; comparing weights would show less, since Adam steps on rounding, too."""
    settings = with_overrides(PAPER, {"gan.batch-size": 16})
    assert generator_for(settings).beta1 == 0
    states = torch.randint(0, 256, (64, 4, 84, 84), dtype=torch.uint8, device="cuda")

    def training(compiles):
        items = Items(states), Items(states.flip(0))
        return generator_for(settings).training(new_context(settings, "gan", compiles=compiles), *items, 2)

    fast, plain = training(True), training(False)
    for network in (plain.pair.generator, plain.pair.discriminator):
        network.space_to_depth = False
        network.train()
    fast.begin()
    for _ in range(3):
        state = clone_state(plain.parts.state())
        fast.parts.restore(state)
        fast.step()
        plain.both()
        torch.testing.assert_close(fast.last_losses, plain.last_losses, rtol=1e-3, atol=1e-3)
        for update, reference in ((fast.update_d, plain.update_d), (fast.update_g, plain.update_g)):
            gradient, expected = update.optimiser.mean, reference.optimiser.mean
            assert (gradient - expected).norm() < 0.01 * expected.norm()
        assert torch.equal(*(found.pair.rng.get_state() for found in (fast, plain)))
        for buffer, other in zip(fast.pair.generator.buffers(), plain.pair.generator.buffers(), strict=True):
            torch.testing.assert_close(buffer, other, rtol=1e-3, atol=1e-4)


def test_concurrent_weight_gradients_equal_those_in_turn():
    """As they are used: bf16, compiled, captured. Kernels may differ, so they agree up to rounding."""
    context = new_context(PAPER, "concurrent gradients", compiles=True)
    count, size = 4, PAPER.training.batch_size
    states = torch.randint(0, 256, (count, size, 4, 84, 84), dtype=torch.uint8, device="cuda")
    actions = torch.randint(0, 18, (count, size), device="cuda")
    targets = torch.randn(count, size, device="cuda")

    def moved(concurrent):
        torch.compiler.reset()  # or the second would use the code of the first
        weights = FlatWeights(context.q_network())
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

    concurrent, in_turn = moved(True), moved(False)
    assert in_turn.norm() > 0
    assert (concurrent - in_turn).norm() < 0.05 * in_turn.norm()


def test_a_stream_gate_holds_up_one_stream_until_the_block_ends():
    gate, stream, numbers = new_stream_gate(), torch.cuda.Stream(), torch.zeros(4, device="cuda")
    assert gate is not None
    for round_, error in ((1, None), (2, ValueError)):
        with contextlib.suppress(ValueError), gate.closed(stream):
            with torch.cuda.stream(stream):
                numbers.add_(1.0)
            assert float(torch.ones((), device="cuda")) == 1.0  # other streams continue
            assert not stream.query()
            if error:
                raise error
        stream.synchronize()
        assert numbers.tolist() == [round_] * 4


def test_items_that_do_not_fit_are_sampled_from_pinned_memory(monkeypatch):
    states = torch.randint(0, 256, (500, 4, 84, 84), dtype=torch.uint8)
    near = Items.on(torch.device("cuda"), states)
    monkeypatch.setattr(items, "free_bytes", lambda device: 0)
    far = Items.on(torch.device("cuda"), states)
    assert far.states.is_cuda
    before = torch.cuda.memory_allocated()
    more = Items.on(torch.device("cuda"), states)
    assert torch.cuda.memory_allocated() == before  # they are in host memory
    samples = [found.sample_states(64, torch.Generator("cuda").manual_seed(1)) for found in (near, far, more)]
    assert torch.equal(samples[0], samples[1])
    assert torch.equal(samples[0], samples[2])
    network = new_context(PAPER, "items").q_network()
    torch.testing.assert_close(far.with_targets(network).targets, near.with_targets(network).targets)


def test_a_checkpoint_restores_every_bit_on_a_gpu():
    """What follows may differ in rounding (cuDNN and cuBLAS select their kernels again); what was saved may not."""
    settings = with_overrides(ARCADE, TINY)

    def learner():
        found = ShortTerm(new_context(settings, "short-term", "catch"), find_task("catch"))
        return found, Parts(trainer=found.trainer, q_learning=found.q_learning.parts)

    first, parts = learner()
    first.trainer.train_to(100)
    first.experience.actor.reset(7)
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
    assert torch.equal(*(found.trainer.rng.get_state() for found in (first, second)))
    assert torch.equal(first.experience.actor.states, second.experience.actor.states)
    torch.testing.assert_close(first.trainer.weights.values, second.trainer.weights.values, rtol=1e-4, atol=1e-6)


def test_concurrent_evaluations_run_on_a_cpu():
    settings = with_overrides(ARCADE, TINY)
    gpu = new_context(settings, "short-term", "catch", concurrent_eval=True)
    cpu, catch = replace(gpu, device=torch.device("cpu"), concurrent_eval=False), find_task("catch")
    learner = ShortTerm(gpu, catch)
    with learner.trainer.evaluator as evaluator:
        learner.trainer.run("learn catch", 120, [catch])
        expected = evaluate(cpu, cpu.q_network(state_tensors(learner.network)), catch, 120)
        assert evaluator.finish() == [expected]
    learner.close()

"""A small study of tasks with vectors of different lengths, from the plan to the report, in all its parts."""

import gymnasium
import numpy as np
import pytest
import torch
from conftest import plan_tiny, run_tiny

import reaper
from reaper.config.sparse_json import from_json
from reaper.context import Context
from reaper.errors import UserError
from reaper.generators import generator_for
from reaper.memory.compression import LzmaCodec, ZlibCodec, decompress, to_bytes
from reaper.report.page import write_report
from reaper.storage.exported_memory import read_memory
from reaper.storage.store import Store

PAIR = "CartPole-v1,Acrobot-v1"
CONDITIONS = ["RePR", "reh", "reh-limit-comp", "ewc", "no-reh"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors") / "run"
    run_tiny(folder, CONDITIONS, PAIR)
    return folder


def memory_of(folder, condition):
    store = Store.open(folder)
    record = next(record for record in store.runs() if record.condition_name == condition)
    return store.stage(record.memories[-1])


def test_memories_hold_vectors_of_floats(run):
    reh = read_memory(memory_of(run, "reh")).retained
    assert {name: (t.dtype, tuple(t.shape[1:])) for name, t in reh.items()} == {
        "items.0": (torch.float32, (6,)),
        "items.1": (torch.float32, (6,)),
    }
    assert not reh["items.0"][:, 4:].any()  # CartPole's four numbers, padded
    assert (reh["items.1"][:, 4:] != 0).all(dim=0).all()


def test_the_size_of_a_memory_counts_floats(run):
    (chain,) = plan_tiny(["reh"], PAIR).chains
    memory, method = read_memory(memory_of(run, "reh")), chain.condition.make_retention(chain.settings)
    stored = sum(tensor.nbytes for tensor in memory.retained.values())
    assert stored == method.num_bytes(chain.settings, 3, 2) == 60 * 6 * 4


def test_a_generator_of_vectors_is_stored_and_loaded(run):
    artefact = memory_of(run, "RePR")
    settings = from_json(artefact.manifest.spec["settings"])
    context = Context(settings, 3, 0, ("test",))
    generator = generator_for(settings).load(context, read_memory(artefact).part("generator"))
    states = generator.sample(50, torch.Generator().manual_seed(0))
    assert (states.dtype, states.shape) == (torch.float32, (50, 6))
    assert len(states.unique(dim=0)) == 50
    assert artefact.tensors("states")["generated"].shape == (96, 6)


@pytest.mark.parametrize("codec", [ZlibCodec(), LzmaCodec(np.zeros(0, np.uint8))], ids=["zlib", "lzma"])
def test_compression_of_vectors_is_lossless(codec):
    states = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    packed = [codec.compress(state.numpy()) for state in to_bytes(states)]
    assert torch.equal(decompress(packed, codec, (6,), torch.float32), states)


def test_an_agent_plays_what_it_has_learnt_as_in_training(run):
    agent = reaper.load(run, "RePR")
    assert agent.observation.shape == (6,)
    ours, wrapped = agent.make_env("CartPole-v1"), agent.wrap(gymnasium.make("CartPole-v1"))
    for env in (ours, wrapped):
        env.reset(seed=5)
    for _ in range(20):
        (here, *outcome), (there, *other) = ours.step(1), wrapped.step(1)
        np.testing.assert_array_equal(here, there)
        assert outcome[:3] == other[:3]
        if outcome[1]:
            break
    action, _ = agent.predict(here)
    assert 0 <= action < 3
    with pytest.raises(UserError, match=r"no scale for .* MountainCar-v0, only of Acrobot-v1, CartPole-v1"):
        agent.wrap(gymnasium.make("MountainCar-v0"))


def test_a_memory_continues_with_tasks_that_are_no_longer(run):
    (chain,) = plan_tiny(["no-reh"], "MountainCar-v0", continue_from=str(run), from_condition="no-reh").chains
    made_with = from_json(memory_of(run, "no-reh").manifest.spec["settings"])
    assert chain.settings.observation.features == 6
    assert {name: chain.settings.scales[name] for name in made_with.scales} == made_with.scales
    assert set(chain.settings.scales) == {"CartPole-v1", "Acrobot-v1", "MountainCar-v0"}


def test_a_memory_does_not_continue_with_longer_vectors(run, register_long):
    with pytest.raises(UserError, match=f"{register_long} has 9 numbers per observation, and .* 6"):
        plan_tiny(["no-reh"], register_long, continue_from=str(run), from_condition="no-reh")
    with pytest.raises(
        UserError, match="observes 6 float32 vectors, and these tasks and settings have stacks of 2 1x16"
    ):
        plan_tiny(["no-reh"], "catch", continue_from=str(run), from_condition="no-reh")


@pytest.fixture
def register_long():
    class Long(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (9,))
        action_space = gymnasium.spaces.Discrete(2)

    gymnasium.register("test/Long-v0", Long)
    yield "test/Long-v0"
    gymnasium.registry.pop("test/Long-v0")


def test_the_report_plots_vectors(run):
    write_report(Store.open(run), videos=False)
    page = (run / "report" / "index.html").read_text()
    assert "in the two directions in which those vary most" in page
    assert (run / "report" / "figures" / "generated-states-RePR.png").exists()


def test_stages_are_shared_between_conditions_but_not_with_other_lengths():
    both, alone = plan_tiny(["no-reh"], PAIR).chains[0], plan_tiny(["no-reh"], "CartPole-v1").chains[0]
    assert both.teachers[0].digest != alone.teachers[0].digest
    assert both.teachers[0].digest == plan_tiny(["ewc"], PAIR).chains[0].teachers[0].digest

"""A generator of another package: one class, registered by name and selected by a setting."""

from dataclasses import dataclass

import pytest
import torch
from conftest import plan_tiny, run_tiny

import reaper
from reaper.config.fields import duration, positive
from reaper.errors import UserError
from reaper.generators import GENERATORS, generator_for
from reaper.results.runs import read_results
from reaper.storage.exported_memory import read_memory
from reaper.study.stages import load_of


@dataclass
class Mean(reaper.FittedGenerator):
    """Generates the mean state with noise."""

    mean: torch.Tensor
    spread: float

    def sample(self, count, rng, chunk=1000):
        noise = torch.randn(count, *self.mean.shape, generator=rng, device=rng.device) * self.spread
        return (self.mean.to(rng.device) + noise).clamp(0, 255).to(torch.uint8)

    def state(self):
        return {"mean": self.mean.cpu()}


class MeanTraining(reaper.GeneratorTraining):
    """A running mean over batches, weighed as the GAN's batches are: the new task has 1/T of them."""

    def __init__(self, context, kind, sources):
        super().__init__(context, kind.steps)
        self.kind, self.sources = kind, sources
        self.rng = context.rng("mean")
        self.total = torch.zeros(context.observation.shape)
        self.parts |= {"batches": self.rng}

    def begin(self):
        pass

    def step(self):
        source = self.sources[self.calls_done % len(self.sources)]
        self.total += source.sample_states(4, self.rng).float().mean(dim=0).cpu()

    def losses(self):
        return {"brightness": float(self.total.mean() / (self.calls_done + 1))}

    def fitted(self):
        return Mean(self.total / max(self.calls_done, 1), self.kind.spread)

    def state(self):
        return {"total": self.total, **super().state()}

    def restore(self, state):
        self.total = state["total"].cpu()
        super().restore({key: value for key, value in state.items() if key != "total"})


@dataclass(frozen=True)
class MeanGenerator(reaper.Generator):
    """As small as a generator can be."""

    steps: int = duration(100, "batches per task")
    spread: float = positive(10.0, "standard deviation of the noise")

    def training(self, context, new_states, pseudo_items, num_tasks):
        return MeanTraining(context, self, [new_states, *[pseudo_items] * (num_tasks - 1)])

    def untrained(self, context):
        return Mean(torch.zeros(context.observation.shape), self.spread)

    def load(self, context, tensors):
        return Mean(tensors["mean"], self.spread)

    def num_bytes(self, observation):
        return 4 * observation.size


@pytest.fixture
def mean_generator():
    reaper.register_generator("mean", MeanGenerator)
    yield
    del GENERATORS["mean"]


OVERRIDES = {"generator.name": "mean", "mean.steps": 6, "mean.spread": 5}


def test_another_generator_is_one_class_and_a_setting(tmp_path, mean_generator):
    store = run_tiny(tmp_path / "out", ["RePR", "DGDMN", "RePR-untrained"], tasks="catch,dodge", overrides=OVERRIDES)
    for result in read_results(store):
        assert result.finished
        memory = read_memory(store.stage(result.record.memories[-1]))
        assert memory.part("generator").keys() == {"mean"}
        # The agent, and a mean of 2 x 16 x 16 numbers of four bytes.
        agent = sum(tensor.numel() for tensor in memory.agent.values())
        assert memory.bytes == 4 * agent + 4 * 2 * 16 * 16
    untrained = next(r for r in read_results(store) if r.name == "RePR-untrained")
    assert not read_memory(store.stage(untrained.record.memories[-1])).part("generator")["mean"].any()


def test_its_settings_are_those_of_the_stages_that_use_it(mean_generator):
    study = plan_tiny(["RePR", "reh"], tasks="catch,dodge", overrides=OVERRIDES)
    repr_chain, rehearsal = study.chains
    spec = repr_chain.memories[1].spec["settings"]
    assert spec["generator"] == {"name": "mean", "pseudo_items": 60}
    assert spec["methods"] == {"mean": {"steps": 6, "spread": 5.0}}  # and nothing about the GAN
    assert "mean" not in rehearsal.memories[1].spec["settings"]["methods"]
    assert load_of(repr_chain.memories[1]).generator_steps == 6


def test_its_curve_has_the_losses_it_reports(tmp_path, mean_generator):
    store = run_tiny(tmp_path / "out", ["RePR"], tasks="catch,dodge", overrides=OVERRIDES)
    (run,) = store.runs()
    curve = store.stage(run.memories[1]).document("generator_curve")
    assert [row.keys() for row in curve] == [{"step", "brightness"}] * 6
    assert [row["step"] for row in curve] == [0, 1, 2, 3, 4, 5]


def test_a_generator_that_does_not_exist_is_one_line():
    with pytest.raises(UserError, match="unknown generator 'gna'; did you mean 'gan'"):
        plan_tiny(["RePR"], overrides={"generator.name": "gna"})


def test_the_gan_is_the_default():
    (chain,) = plan_tiny(["RePR"], tasks="catch").chains
    assert generator_for(chain.settings) == GENERATORS["gan"](latent_size=64, steps=8, batch_size=8)

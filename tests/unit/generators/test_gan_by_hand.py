"""The GAN against the paper's table and arithmetic by hand: sizes, initial weights, latent variables, batches."""

import copy

import pytest
import torch
from conftest import TINY
from torch import nn

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.errors import UserError
from reaper.generators.base import GeneratorTraining
from reaper.generators.gan.discriminator import Discriminator
from reaper.generators.gan.gan import GAN
from reaper.generators.gan.generator import GeneratorNetwork, generator_layers, initialise_adversarial
from reaper.generators.gan.training import TrainingStates
from reaper.memory.items import Items
from reaper.progress import CurvePoints, Progress
from reaper.randomness import new_rng
from reaper.tasks.observation import ObservationSpec


def shapes(network):
    """The shapes of its weights, layer by layer, without batch normalisation."""
    return [tuple(p.shape) for name, p in network.named_parameters() if name.endswith("weight") and p.ndim > 1]


def test_the_generator_is_that_of_the_table():
    """Table gan-arch: dense, then four deconvolutions with kernels of 5 and strides 3, 2, 2, 1, from 7 to 84 pixels."""
    network = GeneratorNetwork(84, 4, 100)
    assert shapes(network) == [(12544, 100), (256, 256, 5, 5), (256, 128, 5, 5), (128, 64, 5, 5), (64, 4, 5, 5)]
    strides = [layer.stride[0] for layer in network.modules() if isinstance(layer, nn.ConvTranspose2d)]
    assert strides == [3, 2, 2, 1]
    sides, x = [], torch.zeros(2, 100)
    with torch.no_grad():
        for layer in network.layers:
            x = layer(x)
            sides += [x.shape[-1]] if isinstance(layer, nn.ConvTranspose2d) else []
    assert sides == [21, 42, 84, 84]
    assert x.shape == (2, 4, 84, 84)
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert [(norm.eps, norm.momentum) for norm in norms] == [(1e-5, 0.1)] * 4


def test_the_discriminator_is_that_of_the_table():
    network = Discriminator(84, 4)
    assert shapes(network) == [(64, 4, 5, 5), (128, 64, 5, 5), (256, 128, 5, 5), (1, 7 * 7 * 256)]
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert [layer.stride[0] for layer in convolutions] == [3, 2, 2]
    assert {layer.negative_slope for layer in network.modules() if isinstance(layer, nn.LeakyReLU)} == {0.2}
    assert network(torch.zeros(3, 4, 84, 84)).shape == (3,)


def test_small_images_get_smaller_networks():
    assert generator_layers(16, 2, 1) == (128, 4, ((32, 2, 2, 0), (2, 2, 2, 0)))
    assert generator_layers(16, 2, 3)[0] == 3 * 128
    small = GeneratorNetwork(16, 2, 8, width=2)
    assert sum(p.numel() for p in small.parameters()) > sum(p.numel() for p in GeneratorNetwork(16, 2, 8).parameters())
    assert small.eval()(torch.zeros(3, 8)).shape == (3, 2, 16, 16)
    scores = Discriminator(16, 2)
    assert scores(torch.zeros(3, 2, 16, 16)).shape == (3,)
    assert [layer.out_features for layer in scores.modules() if isinstance(layer, nn.Linear)][-2:] == [128, 1]


@pytest.mark.parametrize(("side", "multiple"), [(18, 4), (82, 12), (90, 12)])
def test_a_side_that_the_strides_do_not_divide_is_refused(side, multiple):
    with pytest.raises(UserError, match=f"a multiple of {multiple}, not {side}"):
        GeneratorNetwork(side, 2, 8)


def test_images_that_are_not_square_are_refused():
    with pytest.raises(UserError, match="generates vectors and square images, not 1x16x24 uint8 images"):
        GAN().network(ObservationSpec((1, 16, 24)))


def test_initial_weights_are_small_and_biases_zero():
    network = Discriminator(84, 4)
    initialise_adversarial(network, torch.Generator().manual_seed(0))
    weights = torch.cat([p.flatten() for name, p in network.named_parameters() if name.endswith("weight")])
    assert weights.std().item() == pytest.approx(0.02, rel=0.01)
    assert abs(weights.mean().item()) < 1e-4
    assert not any(p.any() for name, p in network.named_parameters() if name.endswith("bias"))


def test_latent_variables_are_uniform_between_minus_one_and_one():
    latents = GeneratorNetwork(16, 2, 8).sample_latents(20_000, torch.Generator().manual_seed(0))
    assert latents.shape == (20_000, 8)
    assert (latents.min().item(), latents.max().item()) == (pytest.approx(-1, abs=1e-3), pytest.approx(1, abs=1e-3))
    assert latents.mean().item() == pytest.approx(0, abs=0.01)
    assert latents.std().item() == pytest.approx(3**-0.5, rel=0.01)


def test_states_are_generated_in_chunks():
    network = GeneratorNetwork(16, 2, 8)
    initialise_adversarial(network, torch.Generator().manual_seed(0))
    whole = network.sample(7, torch.Generator().manual_seed(1))
    assert torch.equal(network.sample(7, torch.Generator().manual_seed(1), chunk=3), whole)
    assert not network.training


def flat(value, count=50):
    return Items(torch.full((count, 2, 16, 16), value, dtype=torch.uint8))


def test_new_states_are_one_of_so_many_tasks():
    rng = new_rng("cpu", 0, "test")
    only = TrainingStates(flat(9), None, 1).sample(5, rng)
    assert (only.dtype, only.unique().tolist()) == (torch.float32, [9.0])
    mixed = TrainingStates(flat(9), flat(3), 4).sample(4000, rng)[:, 0, 0, 0]
    assert sorted(mixed.unique().tolist()) == [3.0, 9.0]
    assert (mixed == 9).float().mean().item() == pytest.approx(1 / 4, abs=0.03)


def training(events=None, **overrides):
    settings = with_overrides(ARCADE, {**TINY, **overrides})
    parts = {"progress": Progress(events.append, min_interval=0.0)} if events is not None else {}
    context = Context(settings, 6, 0, ("generator",), **parts)
    gan = GAN(latent_size=8, steps=settings.methods["gan"]["steps"], batch_size=8)
    return gan.training(context, flat(200), None, 1)


def test_steps_alternate_and_are_counted():
    events = []
    run = training(events, **{"gan.steps": 6})
    before = [weights.clone() for weights in (*run.pair.discriminator.parameters(), *run.pair.generator.parameters())]
    run.run()
    after = [*run.pair.discriminator.parameters(), *run.pair.generator.parameters()]
    assert sum(not torch.equal(a, b) for a, b in zip(after, before, strict=True)) > len(before) // 2
    assert (run.calls, run.calls_done) == (3, 3)
    assert [row["step"] for row in run.curve] == [0, 2, 4]
    assert set(run.curve[0]) == {"step", "discriminator", "generator"}
    progress = [(event.done, event.total) for event in events if hasattr(event, "done")]
    assert (progress[0], progress[-1]) == ((0, 6), (6, 6))
    points = [event for event in events if isinstance(event, CurvePoints)]
    assert [point.step for point in points] == [0, 2, 4]
    assert "generator/discriminator_loss" in points[0].values


def test_what_the_discriminator_sees_is_noisy_and_scaled():
    pair = training().pair
    pixels, none = torch.tensor([0.0, 127.5, 255.0]), torch.zeros(3)
    assert pair.seen(pixels, none).tolist() == pytest.approx([-1, 0, 1])
    noise = pair.noise()
    assert noise.shape == (8, 2, 16, 16)
    assert (noise.min().item(), noise.max().item()) == (pytest.approx(-1, abs=0.01), pytest.approx(1, abs=0.01))


def test_training_moves_generated_states_towards_the_real_ones():
    run = training(**{"gan.steps": 160})
    rng = torch.Generator().manual_seed(0)
    before = run.fitted().sample(20, rng).float().mean().item()
    after = run.run().sample(20, torch.Generator().manual_seed(0)).float().mean().item()
    assert before == pytest.approx(127, abs=10)
    assert after > before + 15  # real states are 200 everywhere


def test_training_that_was_interrupted_continues_as_if_it_had_not_been():
    """Weights, optimisers, batches and the curve, saved after two of four calls."""
    whole, first, second = (training(**{"gan.steps": 8}) for _ in range(3))
    whole.run()
    first.begin()
    for first.calls_done in (1, 2):
        first.step()
    second.restore({name: copy.deepcopy(part) for name, part in first.state().items()})
    second.run()
    for name, tensor in whole.fitted().state().items():
        assert torch.equal(second.fitted().state()[name], tensor), name
    assert [row["step"] for row in second.curve] == [4, 6]
    assert second.curve[-1] == whole.curve[-1]


class Counting(GeneratorTraining):
    """Makes one step per call, as a generator does unless it says otherwise."""

    made = 0

    def begin(self):
        assert self.made == 0

    def step(self):
        self.made += 1

    def losses(self):
        return {"made": float(self.made)}

    def fitted(self):
        return self.made


@pytest.mark.parametrize(("steps", "points"), [(0, []), (5, [0, 1, 2, 3, 4]), (300, list(range(0, 300, 3)))])
def test_steps_are_counted_one_by_one_and_logged_at_a_hundred_points(steps, points):
    run = Counting(Context(ARCADE, 6, 0, ("generator",)), steps)
    assert run.run() == steps
    assert [row["step"] for row in run.curve] == points
    assert [row["made"] for row in run.curve] == [point + 1 for point in points]

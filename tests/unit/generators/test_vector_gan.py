"""The GAN for vectors: its networks, what its discriminator sees, and that it learns where states are."""

import pytest
import torch

from reaper.config.overrides import with_overrides
from reaper.config.presets import VECTOR
from reaper.context import Context, state_tensors
from reaper.equations import score_gradients
from reaper.generators.gan import GAN
from reaper.generators.gan.mlp import VectorDiscriminator, VectorGenerator
from reaper.memory.items import Items
from reaper.tasks.observation import vector_spec

CONTEXT = Context(with_overrides(VECTOR, {"observation.features": 3}), 2, 0, ("generator",))


def test_both_networks_are_mlps_without_bounds():
    generator, discriminator = GAN(latent_size=8).networks(CONTEXT)
    assert [tuple(p.shape) for p in generator.parameters()] == [(256, 8), (256,), (256, 256), (256,), (3, 256), (3,)]
    assert [tuple(p.shape) for p in discriminator.parameters()][-2:] == [(1, 256), (1,)]
    generator.layers[-1].bias.data.fill_(7.0)
    states = generator.sample(4, torch.Generator().manual_seed(0))
    assert (states.dtype, states.shape) == (torch.float32, (4, 3))
    assert states.mean() > 3  # no Tanh, no rounding


def test_its_size_is_that_of_its_state():
    assert GAN(latent_size=8).num_bytes(vector_spec(3)) == sum(
        tensor.nbytes for tensor in state_tensors(VectorGenerator(vector_spec(3), 8)).values()
    )


def test_noise_is_on_the_scale_of_pixels():
    generator, zeros = VectorGenerator(vector_spec(3), 8), torch.zeros(2, 3)
    assert generator.to_inputs(zeros, torch.ones(2, 3), 0.0).tolist() == zeros.tolist()
    torch.testing.assert_close(generator.to_inputs(zeros, torch.ones(2, 3), 127.5), torch.ones(2, 3))


def test_input_gradients_are_those_of_the_scores():
    discriminator, states = VectorDiscriminator(vector_spec(3)), torch.randn(5, 3)
    assert discriminator(states).shape == (5,)
    given = discriminator(states, input_gradients=True)
    torch.testing.assert_close(given, score_gradients(lambda x: discriminator(x)[:, None], states))


def test_generated_states_approach_real_ones():
    rng = torch.Generator().manual_seed(0)
    real = torch.tensor([2.0, -1.0, 0.0]) + torch.randn(2000, 3, generator=rng) * torch.tensor([0.3, 0.3, 0.0])
    gan = GAN(latent_size=8, steps=1200, batch_size=32, gradient_penalty=1.0, noise=0.0, average=0.99)
    generated = gan.training(CONTEXT, Items(real), None, 1).run().sample(500, rng)
    assert generated.mean(dim=0).tolist() == pytest.approx([2.0, -1.0, 0.0], abs=0.25)
    assert generated[:, 2].abs().max() < 0.2  # a number that is padding stays near zero
    assert (generated.std(dim=0)[:2] > 0.1).all()

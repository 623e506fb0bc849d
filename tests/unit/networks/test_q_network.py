"""Networks: the quick rewrites compute what the plain layers compute, and every pixel counts."""

import pytest
import torch
from torch import nn

from reaper.compute.patches import PatchConvolution, PatchDeconvolution
from reaper.config.presets import ARCADE, PAPER
from reaper.generators.gan.generator import GeneratorNetwork, initialise_adversarial
from reaper.networks.convolutional import ConvQNetwork
from reaper.tasks.observation import state_spec

ATARI_STATE = state_spec(PAPER.observation)
ARCADE_STATE = state_spec(ARCADE.observation)


@pytest.mark.parametrize("kernel", [2, 3])
def test_patch_layers_are_the_plain_ones(kernel):
    torch.manual_seed(0)
    images = torch.randn(3, 4, 6, 6)
    quick, plain = PatchConvolution(4, 5, kernel), nn.Conv2d(4, 5, kernel, kernel)
    plain.load_state_dict(quick.state_dict())
    torch.testing.assert_close(quick(images), plain(images))
    quick, plain = PatchDeconvolution(4, 5, kernel), nn.ConvTranspose2d(4, 5, kernel, kernel)
    plain.load_state_dict(quick.state_dict())
    torch.testing.assert_close(quick(images), plain(images))


def test_small_networks_read_every_pixel():
    network = ConvQNetwork(ARCADE_STATE, 6)
    network.initialise("he", torch.Generator().manual_seed(0))
    pixels = torch.rand(1, 2, 16, 16, generator=torch.Generator().manual_seed(1)) * 255
    pixels.requires_grad_()
    network(pixels).square().sum().backward()
    assert (pixels.grad.abs().sum(dim=1) > 0).all()


def test_initialisation_is_the_papers():
    network = ConvQNetwork(ATARI_STATE, 18)
    network.initialise("paper", torch.Generator().manual_seed(0))
    weight = network.hidden.weight
    assert weight.abs().max() <= 0.02
    # A normal cut at two standard deviations has 0.8796 of its deviation left.
    assert weight.std().item() == pytest.approx(0.01 * 0.8796, rel=0.01)
    assert all((p == 0.01).all() for name, p in network.named_parameters() if name.endswith("bias"))


def test_dreams_are_states_that_do_not_depend_on_their_neighbours():
    generator = GeneratorNetwork(16, 2, 8)
    initialise_adversarial(generator, torch.Generator().manual_seed(0))
    many = generator.sample(6, torch.Generator().manual_seed(1))
    few = generator.sample(3, torch.Generator().manual_seed(1))
    assert (many.shape, many.dtype) == ((6, 2, 16, 16), torch.uint8)
    assert torch.equal(many[:3], few)

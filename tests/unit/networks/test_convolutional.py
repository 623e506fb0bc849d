"""The convolutional Q-network: every pixel counts, and weights are initialised as in the paper."""

import pytest
import torch

from reaper.config.presets import ARCADE, PAPER
from reaper.networks.convolutional import ConvQNetwork
from reaper.tasks.observation import state_spec

ATARI_STATE = state_spec(PAPER.observation)
ARCADE_STATE = state_spec(ARCADE.observation)


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

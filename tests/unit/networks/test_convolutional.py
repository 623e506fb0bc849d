"""The convolutional Q-network: every pixel counts, and weights are initialised as in the paper."""

import pytest
import torch

from reaper.config.presets import ARCADE, PAPER
from reaper.networks.convolutional import ConvQNetwork
from reaper.tasks.observation import ObservationSpec, state_spec

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


def layers(network):
    """(shape of the weights, stride, padding) of its convolutions, then the shapes of its dense layers."""
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    dense = [tuple(m.weight.shape) for m in network.modules() if isinstance(m, torch.nn.Linear)]
    return [(tuple(m.weight.shape), m.stride[0], m.padding[0]) for m in convolutions], dense


def test_layers_are_those_of_the_table():
    assert layers(ConvQNetwork(ATARI_STATE, 18)) == (
        [((32, 4, 8, 8), 4, 0), ((64, 32, 4, 4), 2, 0), ((64, 64, 3, 3), 1, 0)],
        [(512, 7 * 7 * 64), (18, 512)],
    )


def test_small_networks_are_smaller_and_padded():
    assert layers(ConvQNetwork(ARCADE_STATE, 6)) == (
        [((16, 2, 4, 4), 2, 1), ((32, 16, 4, 4), 2, 1)],
        [(128, 4 * 4 * 32), (6, 128)],
    )


def test_width_multiplies_every_hidden_layer():
    assert layers(ConvQNetwork(ARCADE_STATE, 6, width=2)) == (
        [((32, 2, 4, 4), 2, 1), ((64, 32, 4, 4), 2, 1)],
        [(256, 4 * 4 * 64), (6, 256)],
    )


def test_the_smallest_frames_have_twelve_pixels_per_side():
    network = ConvQNetwork(ObservationSpec((2, 12, 12), frame_stack=2), 3)
    assert network(torch.zeros(1, 2, 12, 12, dtype=torch.uint8)).shape == (1, 3)


@pytest.mark.parametrize("state", [ATARI_STATE, ARCADE_STATE], ids=["atari", "arcade"])
@pytest.mark.parametrize("space_to_depth", [False, True])
def test_values_are_those_of_the_layers_one_by_one(state, space_to_depth):
    network = ConvQNetwork(state, 5)
    network.initialise("he", torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.copy_(torch.linspace(-0.1, 0.1, len(parameter)))
        states = torch.randint(0, 256, (3, *state.shape), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
        x = states.float() / 255
        for layer in network.modules():
            if isinstance(layer, torch.nn.Conv2d):
                kernel, bias = layer.weight, layer.bias
                x = torch.nn.functional.conv2d(x, kernel, bias, stride=layer.stride, padding=layer.padding).relu()
        x = (x.flatten(1) @ network.hidden.weight.T + network.hidden.bias).relu()
        expected = x @ network.values.weight.T + network.values.bias
        network.space_to_depth = space_to_depth
        torch.testing.assert_close(network(states), expected, rtol=1e-4, atol=1e-4)


def test_he_initialisation_is_uniform_and_scaled_to_the_inputs():
    network = ConvQNetwork(ARCADE_STATE, 6)
    network.initialise("he", torch.Generator().manual_seed(0))
    weight, bound = network.hidden.weight, (6 / 512) ** 0.5  # 512 inputs
    assert weight.abs().max().item() == pytest.approx(bound, rel=1e-3)
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)
    assert not any(p.any() for name, p in network.named_parameters() if name.endswith("bias"))


def test_a_compute_dtype_rounds_activations_and_not_values():
    network = ConvQNetwork(ATARI_STATE, 5)
    network.initialise("he", torch.Generator().manual_seed(0))
    states = torch.randint(0, 256, (2, *ATARI_STATE.shape), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    with torch.no_grad():
        exact, rounded = network(states), network(states, torch.bfloat16)
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(exact, rounded, rtol=0.1, atol=0.1)


def test_only_large_frames_are_stored_channels_last():
    """There it makes the first layer's backward pass faster; small frames would lose by it."""
    small, large = (ConvQNetwork(ObservationSpec((2, side, side)), 6) for side in (35, 36))
    assert (small.memory_format, large.memory_format) == (torch.contiguous_format, torch.channels_last)

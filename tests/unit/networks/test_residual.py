"""The residual Q-network: blocks that are the identity at first, recognised by its weights."""

import pytest
import torch
from torch.nn import functional

from reaper.config.presets import ARCADE, MODERN
from reaper.config.settings import NetworkSettings
from reaper.context import Context
from reaper.errors import UserError
from reaper.networks.families import build_q_network
from reaper.networks.residual import ResidualQNetwork, is_residual
from reaper.tasks.observation import ObservationSpec, state_spec

ATARI_STATE = state_spec(MODERN.observation)
SMALL_STATE = state_spec(ARCADE.observation)


def filled(network):
    """The network with weights that are no longer those of the identity."""
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=rng) * 0.2 - 0.1)
    return network


def test_layers_of_large_and_small_frames():
    def shapes(network):
        return [tuple(parameter.shape) for name, parameter in network.named_parameters() if name.endswith("weight")]

    blocks = [(64, 64, 3, 3)] * 8
    # 84, 42, 21, 11 and 6 pixels per side; 16, 8 and 4.
    assert shapes(ResidualQNetwork(ATARI_STATE, 18)) == [
        *((32, 4, 4, 4), (64, 32, 3, 3), *blocks, (512, 64 * 6 * 6), (18, 512))
    ]
    assert shapes(ResidualQNetwork(SMALL_STATE, 6)) == [
        *((32, 2, 4, 4), (64, 32, 3, 3), *blocks, (512, 64 * 4 * 4), (6, 512))
    ]


@pytest.mark.parametrize("state", [SMALL_STATE, ObservationSpec((4, 40, 40), frame_stack=4)], ids=["small", "large"])
def test_values_are_those_of_the_layers_one_by_one(state):
    network = filled(ResidualQNetwork(state, 5))
    states = torch.randint(0, 256, (3, *state.shape), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    weights, large = network.state_dict(), state.shape[1] == 40

    def convolve(x, name, stride=1):
        return functional.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], stride, padding=1)

    def pool(x):
        return functional.max_pool2d(x, 3, stride=2, padding=1)

    def block(x, number):
        return x + convolve(convolve(x.relu(), f"blocks.{number}.first").relu(), f"blocks.{number}.second")

    x = convolve(states.float() / 255, "stem", stride=2)
    x = convolve((pool(x) if large else x).relu(), "widen")
    x = block(block(pool(block(block(x, 0), 1)), 2), 3).relu()
    x = (pool(x) if large else x).flatten(1)
    x = functional.linear(x, weights["hidden.weight"], weights["hidden.bias"]).relu()
    expected = functional.linear(x, weights["values.weight"], weights["values.bias"])
    torch.testing.assert_close(network(states), expected, rtol=1e-4, atol=1e-4)


def test_compute_dtype_rounds_activations_but_not_values():
    network = filled(ResidualQNetwork(SMALL_STATE, 5))
    states = torch.full((2, 2, 16, 16), 200, dtype=torch.uint8)
    exact, rounded = network(states), network(states, compute_dtype=torch.bfloat16)
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(rounded, exact, rtol=0.05, atol=0.05)


def test_blocks_begin_as_the_identity_and_values_as_zero():
    network = ResidualQNetwork(SMALL_STATE, 5)
    network.initialise("he", torch.Generator().manual_seed(0))
    activations = torch.rand(1, 64, 8, 8, generator=torch.Generator().manual_seed(1))
    assert all(torch.equal(block(activations), activations) for block in network.blocks)
    assert not network(torch.full((1, *SMALL_STATE.shape), 99, dtype=torch.uint8)).any()


def test_weights_tell_which_network_it_is():
    context = Context(ARCADE, 6, seed=0, names=("test",))
    plain, residual = context.q_network(), context.q_network(residual=True)
    assert not is_residual(plain.state_dict())
    assert isinstance(context.q_network(residual.state_dict()), ResidualQNetwork)
    assert isinstance(context.copy_of(residual), ResidualQNetwork)
    assert type(context.copy_of(plain)) is type(plain)


def test_quantiles_are_averaged_into_the_same_network():
    context = Context(ARCADE, 6, seed=0, names=("test",))
    network = filled(context.q_network(quantiles=4, residual=True))
    states = torch.randint(0, 256, (3, 2, 16, 16), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    averaged = context.q_network(network.averaged())
    torch.testing.assert_close(averaged(states), network(states))


def test_vectors_are_refused():
    with pytest.raises(UserError, match="network residual needs images"):
        build_q_network(ObservationSpec((4,), dtype="float32", kind="vector"), 4, NetworkSettings(), residual=True)

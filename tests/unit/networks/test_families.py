"""Which Q-network is built for which observation, and how weights from a file are checked."""

import pytest
import torch

from reaper.config.presets import ARCADE, PAPER
from reaper.config.settings import NetworkSettings
from reaper.errors import UserError
from reaper.networks.convolutional import ConvQNetwork
from reaper.networks.families import Q_NETWORKS, build_q_network, q_network_bytes
from reaper.networks.mlp import MLPQNetwork
from reaper.networks.q_network import QNetwork
from reaper.networks.weights import with_weights
from reaper.tasks.observation import VECTOR, ObservationSpec, state_spec

VECTOR_STATE = ObservationSpec((8,), "float32", VECTOR)


def test_images_get_the_convolutional_network():
    network = build_q_network(state_spec(PAPER.observation), 18, PAPER.network)
    assert isinstance(network, ConvQNetwork)
    assert q_network_bytes(state_spec(PAPER.observation), 18, PAPER.network) == 4 * 1_693_362


def test_vectors_get_an_mlp_of_two_hidden_layers():
    network = build_q_network(VECTOR_STATE, 4, NetworkSettings(width=2))
    assert isinstance(network, MLPQNetwork)
    assert [tuple(p.shape) for name, p in network.named_parameters() if name.endswith("weight")] == [
        (512, 8),
        (512, 512),
        (4, 512),
    ]
    assert network(torch.zeros(3, 8)).shape == (3, 4)


def test_an_observation_without_a_family_is_refused(monkeypatch):
    monkeypatch.delitem(Q_NETWORKS, VECTOR)
    with pytest.raises(UserError, match="no Q-network for vector observations"):
        build_q_network(VECTOR_STATE, 4, NetworkSettings())


class Linear(QNetwork):
    def __init__(self, observation, num_actions, width):
        super().__init__()
        self.values = torch.nn.Linear(observation.size, num_actions)

    def forward(self, states, compute_dtype=None):
        return self.values(states)


@pytest.fixture
def vectors_are_linear():
    family = Q_NETWORKS[VECTOR]
    del Q_NETWORKS[VECTOR]  # a name can be taken only once
    Q_NETWORKS[VECTOR] = Linear
    yield
    del Q_NETWORKS[VECTOR]
    Q_NETWORKS[VECTOR] = family


@pytest.mark.usefixtures("vectors_are_linear")
def test_a_registered_family_is_used():
    network = build_q_network(VECTOR_STATE.stacked(2), 4, NetworkSettings())
    network.initialise("he", torch.Generator().manual_seed(0))
    assert network(torch.zeros(3, 16)).tolist() == [[0.0] * 4] * 3
    assert q_network_bytes(VECTOR_STATE.stacked(2), 4, NetworkSettings()) == 4 * (16 * 4 + 4)


def test_images_need_not_be_square():
    network = ConvQNetwork(ObservationSpec((4, 60, 84), frame_stack=4), 6)
    assert network(torch.zeros(2, 4, 60, 84, dtype=torch.uint8)).shape == (2, 6)


@pytest.mark.parametrize("size", [1, 11])
def test_frames_that_are_too_small_are_refused(size):
    with pytest.raises(UserError, match=f"frames of {size} pixels per side are too small"):
        ConvQNetwork(ObservationSpec((1, size, size)), 6)


def test_weights_of_another_network_are_refused():
    def build() -> QNetwork:
        return build_q_network(state_spec(ARCADE.observation), 6, ARCADE.network)

    weights = build().state_dict()
    assert torch.equal(with_weights(build, weights, "agent").state_dict()["values.bias"], weights["values.bias"])
    for wrong, reason in [
        ({**weights, "values.bias": torch.zeros(7)}, r"values.bias is float32 \(7,\), not float32 \(6,\)"),
        ({**weights, "values.bias": torch.zeros(6).double()}, r"is float64 \(6,\), not float32 \(6,\)"),
        ({**weights, "more": torch.zeros(1)}, r"more is float32 \(1,\), not absent"),
        ({name: w for name, w in weights.items() if name != "values.bias"}, "values.bias is missing"),
    ]:
        with pytest.raises(UserError, match=reason):
            with_weights(build, wrong, "agent")

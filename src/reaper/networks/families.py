"""Which Q-network fits which observation: one row per kind of observation.

A new family subclasses `QNetwork`, takes `(observation, num_actions, width)` and adds its row here, or is registered by
another package: an entry point of the group `reaper.networks`, named after the kind of observation.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from reaper.config.settings import NetworkSettings, Settings
from reaper.errors import UserError
from reaper.networks.convolutional import ConvQNetwork
from reaper.networks.mlp import MLPQNetwork
from reaper.networks.q_network import QNetwork
from reaper.networks.residual import ResidualQNetwork
from reaper.plugins import Registry
from reaper.tasks.observation import IMAGE, VECTOR, ObservationSpec, state_spec

Q_NETWORKS: Registry[Callable[[ObservationSpec, int, int], QNetwork]] = Registry("Q-network", "reaper.networks")
Q_NETWORKS[IMAGE] = ConvQNetwork
Q_NETWORKS[VECTOR] = MLPQNetwork


def build_q_network(
    observation: ObservationSpec,
    num_actions: int,
    settings: NetworkSettings,
    *,
    quantiles: int = 1,
    residual: bool = False,
) -> QNetwork:
    """A Q-network for these states; its weights are torch's defaults until `initialise` or a file sets them.

    `residual`: the larger network that a teacher of images may have.
    """
    if observation.kind not in Q_NETWORKS:
        raise UserError(f"there is no Q-network for {observation.kind} observations; known: {', '.join(Q_NETWORKS)}")
    if residual and observation.kind != IMAGE:
        raise UserError(f"--short-term.network residual needs images, not {observation.kind} observations")
    family = ResidualQNetwork if residual else Q_NETWORKS[observation.kind]
    network = family(observation, num_actions * quantiles, settings.width)
    network.quantiles = quantiles
    return network


def check_networks(settings: Settings, num_actions: int) -> None:
    """Refuses a teacher's network that does not fit the observations."""
    with torch.device("meta"):
        residual = settings.short_term.network == "residual"
        build_q_network(state_spec(settings.observation), num_actions, settings.network, residual=residual)


def q_network_bytes(observation: ObservationSpec, num_actions: int, settings: NetworkSettings) -> int:
    """The size of its weights, without allocating them."""
    with torch.device("meta"):
        network = build_q_network(observation, num_actions, settings)
    return sum(parameter.numel() * parameter.element_size() for parameter in network.parameters())

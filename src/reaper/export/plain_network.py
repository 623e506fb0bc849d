"""An agent's network as a plain list of layers, from which every export is written.

The input is a batch of states as `agent.predict` takes them; where these are images, the first layer divides by 255.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from reaper.agent import Agent
from reaper.errors import UserError
from reaper.networks.convolutional import ConvQNetwork
from reaper.networks.mlp import MLPQNetwork
from reaper.tasks.observation import IMAGE


@dataclass(frozen=True)
class PlainNetwork:
    """Layers in order: Conv2d, ReLU, Flatten and Linear."""

    layers: tuple[nn.Module, ...]
    scaled: bool  # whether the input is divided by 255 first
    shape: tuple[int, ...]  # of one state
    dtype: str  # of a state
    num_actions: int

    def outputs(self, states: torch.Tensor) -> torch.Tensor:
        pixels = states.float() / 255 if self.scaled else states.float()
        return nn.Sequential(*self.layers)(pixels)


def plain_network(agent: Agent) -> PlainNetwork:
    network, spec = agent.network, agent.observation
    if isinstance(network, ConvQNetwork):
        layers = [*network.features, network.hidden, nn.ReLU(), network.values]
    elif isinstance(network, MLPQNetwork):
        layers = [*network.features, network.values]
    else:
        raise UserError(f"a {type(network).__name__} cannot be exported; export the run or its weights instead")
    return PlainNetwork(tuple(layers), spec.kind == IMAGE, spec.shape, spec.dtype, agent.context.num_actions)

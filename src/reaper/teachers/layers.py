"""Networks of agents trained elsewhere, as a plain list of layers.

A description is JSON: `[{"type": "conv", "stride": 4}, {"type": "relu"}, {"type": "flatten"}, {"type": "linear"}]`. The
sizes of layers are those of their weights, which are named after the layer's place in the list: `0.weight`, `0.bias`.
Two layers are no layers of PyTorch: `normalise`, which comes first, and `expectation`, which comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from reaper.errors import UserError
from reaper.teachers.files import Tensors

MAX_LAYERS = 64
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


class Normalise(nn.Module):
    """Vectors minus their mean, divided by their standard deviation and clipped, as SB3's VecNormalize does."""

    def __init__(self, features: int, clip: float) -> None:
        super().__init__()
        self.clip = clip
        for name in ("mean", "std"):
            self.register_buffer(name, torch.empty(features, dtype=torch.float64))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        z = (vectors.double() - self.get_buffer("mean")) / self.get_buffer("std")
        return z.clamp(-self.clip, self.clip).float()


class Expectation(nn.Module):
    """Q-values of a C51 agent: logits of returns (N, num_actions * atoms) -> their expectation (N, num_actions)."""

    def __init__(self, num_atoms: int) -> None:
        super().__init__()
        self.register_buffer("atoms", torch.empty(num_atoms))

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        atoms = self.get_buffer("atoms")
        return logits.unflatten(1, (-1, len(atoms))).softmax(dim=2) @ atoms


class LayerList:
    """Collects layers and their weights, in order."""

    def __init__(self) -> None:
        self.layers: list[dict[str, Any]] = []
        self.weights: Tensors = {}

    def add(self, kind: str, **values: Any) -> None:
        self.layers.append({"type": kind, **values})

    def add_weights(self, kind: str, weights: Mapping[str, torch.Tensor], prefix: str, **values: Any) -> None:
        """A layer with the weights `prefix.weight` and `prefix.bias`."""
        for part in ("weight", "bias"):
            self.weights[f"{len(self.layers)}.{part}"] = weights[f"{prefix}.{part}"].float()
        self.add(kind, **values)


def build_layers(layers: Sequence[Mapping[str, Any]], weights: Mapping[str, torch.Tensor]) -> nn.Sequential:
    """The network of a description, with its weights."""
    if len(layers) > MAX_LAYERS:
        raise UserError(f"a network of {len(layers)} layers is none of a known architecture")
    built = [_build(layer, place, weights) for place, layer in enumerate(layers)]
    network = nn.Sequential(*built)
    network.load_state_dict(dict(weights))
    return network.eval().requires_grad_(False)


def _build(layer: Mapping[str, Any], place: int, weights: Mapping[str, torch.Tensor]) -> nn.Module:
    kind = layer["type"]
    if kind in ACTIVATIONS:
        return ACTIVATIONS[kind]()
    if kind == "flatten":
        return nn.Flatten()
    if kind == "normalise":
        return Normalise(len(weights[f"{place}.mean"]), layer["clip"])
    if kind == "expectation":
        return Expectation(len(weights[f"{place}.atoms"]))
    shape = weights[f"{place}.weight"].shape
    if kind == "linear" and len(shape) == 2:
        return nn.Linear(shape[1], shape[0])
    if kind == "conv" and len(shape) == 4:
        return nn.Conv2d(shape[1], shape[0], kernel_size=(shape[2], shape[3]), stride=layer["stride"])
    raise UserError(f"layer {place} is no {str(kind)[:20]} layer with weights of shape {tuple(shape)}")


def output_size(layers: Sequence[Mapping[str, Any]], weights: Mapping[str, torch.Tensor], shape: Sequence[int]) -> int:
    """How many outputs a network has for observations of this shape; raises UserError where the layers do not fit
    together. Nothing is computed: a network on the meta device only knows its shapes."""
    network = build_layers(layers, weights).to("meta")
    try:
        outputs = network(torch.empty((1, *shape), device="meta"))
    except (RuntimeError, ValueError, TypeError) as error:
        raise UserError(f"its layers do not fit observations of shape {tuple(shape)}: {_first_line(error)}") from None
    return outputs.shape[1]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:120]

"""Agents of CleanRL: `cleanrl:ARCHITECTURE:FILE`, where the architecture is the name of the script that trained it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reaper.errors import UserError, unknown
from reaper.teachers.files import TeacherFile, Tensors, read_bytes, read_state_dict, unknown_architecture
from reaper.teachers.layers import LayerList, output_size

FRAME_SIZE = 84  # what its Atari wrappers emit


def _mlp(found: LayerList, weights: Tensors, prefix: str, activation: str) -> None:
    """Three linear layers."""
    found.add("flatten")
    for place in (0, 2, 4):
        found.add_weights("linear", weights, f"{prefix}.{place}")
        if place < 4:
            found.add(activation)


def _cnn(found: LayerList, weights: Tensors) -> None:
    """Three convolutions and one hidden layer."""
    for place, stride in ((0, 4), (2, 2), (4, 1)):
        found.add_weights("conv", weights, f"network.{place}", stride=stride)
        found.add("relu")
    found.add("flatten")
    found.add_weights("linear", weights, "network.7")
    found.add("relu")


def _dqn(found: LayerList, weights: Tensors) -> None:
    _mlp(found, weights, "network", "relu")


def _dqn_atari(found: LayerList, weights: Tensors) -> None:
    _cnn(found, weights)
    found.add_weights("linear", weights, "network.9")


def _c51(found: LayerList, weights: Tensors) -> None:
    _dqn(found, weights)
    _expectation(found, weights)


def _c51_atari(found: LayerList, weights: Tensors) -> None:
    _dqn_atari(found, weights)
    _expectation(found, weights)


def _expectation(found: LayerList, weights: Tensors) -> None:
    """Q-values of a distribution over returns, whose support is saved with the weights."""
    atoms = weights["atoms"]
    if atoms.ndim != 1 or not len(atoms):
        raise UserError(f"atoms of shape {tuple(atoms.shape)}")
    found.weights[f"{len(found.layers)}.atoms"] = atoms.float()
    found.add("expectation")


def _ppo(found: LayerList, weights: Tensors) -> None:
    _mlp(found, weights, "actor", "tanh")


def _ppo_atari(found: LayerList, weights: Tensors) -> None:
    _cnn(found, weights)
    found.add_weights("linear", weights, "actor")


# Name of CleanRL's script -> what its network's outputs are, whether it sees images, and its layers.
ARCHITECTURES: dict[str, tuple[str, bool, Callable[[LayerList, Tensors], None]]] = {
    "dqn": ("values", False, _dqn),
    "dqn_atari": ("values", True, _dqn_atari),
    "c51": ("values", False, _c51),
    "c51_atari": ("values", True, _c51_atari),
    "ppo": ("logits", False, _ppo),
    "ppo_atari": ("logits", True, _ppo_atari),
}


def read_cleanrl(source: str, text: str) -> TeacherFile:
    """The agent in `ARCHITECTURE:FILE`, a state dict that torch.save wrote."""
    name, colon, file = text.partition(":")
    if not colon:
        raise UserError(f"{source} names no architecture: cleanrl:ARCHITECTURE:FILE with {', '.join(ARCHITECTURES)}")
    if name not in ARCHITECTURES:
        raise unknown("architecture of CleanRL", name, ARCHITECTURES)
    outputs, images, describe = ARCHITECTURES[name]
    weights = read_state_dict(read_bytes(Path(file)), file)
    if "atoms" in weights and not name.startswith("c51"):
        raise unknown_architecture(source, weights, f"no {name} but C51: it has atoms")
    found = LayerList()
    try:
        describe(found, weights)
        first = next(iter(found.weights.values())).shape
        shape = [first[1], FRAME_SIZE, FRAME_SIZE] if images else [first[1]]
        count = output_size(found.layers, found.weights, shape)
    except (KeyError, IndexError) as missing:
        raise unknown_architecture(source, weights, f"no {name}: {missing.args[0]} is missing") from None
    except UserError as error:
        raise unknown_architecture(source, weights, f"no {name}: {error}") from None
    network = {"family": "layers", "outputs": outputs, "num_actions": count, "quantiles": 1, "shape": shape}
    return TeacherFile(source, {**network, "scaled": images, "layers": found.layers}, found.weights)

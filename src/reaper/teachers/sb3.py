"""Agents of Stable-Baselines3: DQN and QR-DQN (Q-values), PPO and A2C (action probabilities); MLP and CNN policies.

A saved agent is a zip with its settings as JSON (`data`) and its weights (`policy.pth`). The JSON also holds pickles
(fields `:serialized:`), which are never decoded. What is needed is plain JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.teachers.files import (
    MAX_BYTES,
    TeacherFile,
    Tensors,
    open_zip,
    read_bytes,
    read_member,
    read_state_dict,
    unknown_architecture,
)
from reaper.teachers.layers import LayerList, output_size
from reaper.teachers.vec_normalize import add_normalisation, split_source, unused_statistics

MAX_DATA = 64 * 2**20  # of the JSON: it holds the bounds of the observation space as text
NATURE_CNN = ((8, 4), (4, 2), (3, 1))  # kernel and stride of each convolution
CLASS_NAME = re.compile(r"<class '[\w.]*?(\w+)'>")


# The first words of all weights that policies of the known architectures have.
KNOWN = {"q_net", "q_net_target", "quantile_net", "quantile_net_target", "mlp_extractor", "action_net", "value_net"}
KNOWN |= {"features_extractor", "pi_features_extractor", "vf_features_extractor"}
# Spaces that SB3 itself makes vectors of, one-hot where they are discrete, as our tasks do.
FLATTENED = ("Dict", "Discrete", "MultiDiscrete", "MultiBinary")


def read_sb3(source: str, text: str) -> TeacherFile:
    """The agent in a zip that `model.save` wrote; `text` is `FILE.zip` or `FILE.zip,STATISTICS.npz`."""
    path, statistics = split_source(text)
    opened = open_zip(read_bytes(path), str(path))
    data = _read_data(read_member(opened, "data", MAX_DATA, str(path)), source)
    weights = read_state_dict(read_member(opened, "policy.pth", MAX_BYTES, str(path)), f"{path}: policy.pth")
    found = _recognise(
        source, weights, _Spaces(data, source), _dictionary(data.get("policy_kwargs")), statistics=statistics
    )
    remark = None if statistics else unused_statistics(path)
    return replace(found, remarks=(remark,)) if remark else found


def _read_data(text: bytes, source: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{source}: its data are no JSON") from None
    if not isinstance(data, dict):
        raise UserError(f"{source}: its data describe no agent")
    return data


class _Spaces:
    """Observation and action space, from what stands in clear."""

    def __init__(self, data: Mapping[str, Any], source: str) -> None:
        observation, action = (_dictionary(data.get(f"{name}_space")) for name in ("observation", "action"))
        kinds = [_class_name(space.get(":type:")) for space in (observation, action)]
        if kinds[0] not in ("Box", *FLATTENED) or kinds[1] != "Discrete":
            what = f"{kinds[0] or 'unknown'} observations and {kinds[1] or 'unknown'} actions"
            raise UserError(f"{source} has {what}; a teacher needs Box or Dict observations and Discrete actions")
        # None: a vector of all parts, whose length only the weights tell
        self.shape: list[int] | None = _shape(observation, source) if kinds[0] == "Box" else None
        number = str(action.get("n"))
        if not number.isdecimal() or not 0 < int(number[:9]) < 2**20:
            raise UserError(f"{source} does not state its number of actions")
        self.num_actions = int(number)


def _shape(box: Mapping[str, Any], source: str) -> list[int]:
    shape, dtype = box.get("_shape"), str(box.get("dtype"))
    sides: list[Any] = shape if isinstance(shape, list) else []
    whole = all(type(side) is int and 0 < side <= 2**20 for side in sides)
    if not whole or len(sides) not in (1, 3) or (dtype == "uint8") != (len(sides) == 3):
        raise UserError(f"{source} observes {dtype[:20]} {str(shape)[:60]}; supported: float vectors, images")
    return sides


def _dictionary(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _class_name(text: object) -> str:
    found = CLASS_NAME.search(str(text)[:200])
    return found[1] if found else ""


def _recognise(
    source: str, weights: Tensors, spaces: _Spaces, kwargs: Mapping[str, Any], *, statistics: Path | None
) -> TeacherFile:
    """The actor's layers, from the names of the weights."""
    extractor_class = _class_name(kwargs.get("features_extractor_class"))
    if extractor_class not in ("", "NatureCNN", "FlattenExtractor", "CombinedExtractor"):
        raise unknown_architecture(source, weights, f"features extractor {extractor_class}")
    if strange := next((key for key in weights if key.split(".")[0] not in KNOWN), None):
        raise unknown_architecture(source, weights, f"{strange[:60]} is none of a known policy's")
    for head in ("q_net", "quantile_net"):
        if f"{head}.{head}.0.weight" in weights:
            outputs, heads, extractors, default = "values", [f"{head}.{head}"], [f"{head}.features_extractor"], "relu"
            break
    else:
        if "action_net.weight" not in weights:
            raise unknown_architecture(source, weights)
        # Before version 1.8, actor and critic could share layers.
        outputs, heads, default = "logits", ["mlp_extractor.shared_net", "mlp_extractor.policy_net"], "tanh"
        extractors = ["pi_features_extractor", "features_extractor"]
    found, shape = LayerList(), spaces.shape or _flat_shape(source, weights, heads)
    if statistics:
        add_normalisation(found, statistics, shape)
    try:
        _add_extractor(found, weights, extractors)
        activation = _activation(kwargs, default, source)
        for head in heads:
            _add_mlp(found, weights, head, activation, last=outputs == "values")
        if outputs == "logits":
            found.add_weights("linear", weights, "action_net")
        count = output_size(found.layers, found.weights, shape)
    except KeyError as missing:
        raise unknown_architecture(source, weights, f"{missing.args[0]} is missing") from None
    except UserError as error:
        raise unknown_architecture(source, weights, str(error)) from None
    quantiles = count // spaces.num_actions if "quantile_net.quantile_net.0.weight" in weights else 1
    if count != quantiles * spaces.num_actions:
        raise unknown_architecture(source, weights, f"{count} outputs for {spaces.num_actions} actions")
    network = {
        "family": "layers",
        "outputs": outputs,
        "num_actions": spaces.num_actions,
        "quantiles": quantiles,
        "shape": shape,
        "scaled": len(shape) == 3 and str(kwargs.get("normalize_images")) != "False",
        "layers": found.layers,
    }
    return TeacherFile(source, network, found.weights)


def _activation(kwargs: Mapping[str, Any], default: str, source: str) -> str:
    """Of an MLP: the one that was given, or the default of the algorithm."""
    if kwargs.get("activation_fn") is None:
        return default
    name = _class_name(kwargs["activation_fn"])
    if name not in ("ReLU", "Tanh"):
        raise UserError(f"activation {name or str(kwargs['activation_fn'])[:40]}; supported: ReLU, Tanh")
    return name.lower()


def _flat_shape(source: str, weights: Tensors, heads: list[str]) -> list[int]:
    """Of observations that SB3 makes vectors of: what the first layer takes."""
    first = [f"{head}.0.weight" for head in heads if f"{head}.0.weight" in weights]
    shape = weights[first[0] if first else "action_net.weight"].shape
    if len(shape) != 2:
        raise unknown_architecture(source, weights, "its first layer is not linear")
    return [shape[1]]


def _add_extractor(found: LayerList, weights: Tensors, prefixes: list[str]) -> None:
    """NatureCNN, or nothing but flattening."""
    prefix = next((name for name in prefixes if any(key.startswith(f"{name}.") for key in weights)), None)
    if prefix is None:
        found.add("flatten")
        return
    for place, (kernel, stride) in enumerate(NATURE_CNN):
        layer = f"{prefix}.cnn.{2 * place}"
        if weights[f"{layer}.weight"].shape[2:] != (kernel, kernel):
            raise UserError(f"{layer} is no convolution of NatureCNN")
        found.add_weights("conv", weights, layer, stride=stride)
        found.add("relu")
    found.add("flatten")
    found.add_weights("linear", weights, f"{prefix}.linear.0")
    found.add("relu")
    if extra := [key for key in weights if key.startswith(f"{prefix}.") and not _of_nature_cnn(key, prefix)]:
        raise UserError(f"{extra[0][:60]} is none of NatureCNN's")


def _of_nature_cnn(key: str, prefix: str) -> bool:
    layers = [*(f"cnn.{2 * place}" for place in range(len(NATURE_CNN))), "linear.0"]
    return key in {f"{prefix}.{layer}.{part}" for layer in layers for part in ("weight", "bias")}


def _add_mlp(found: LayerList, weights: Tensors, prefix: str, activation: str, *, last: bool) -> None:
    """Linear layers 0, 2, 4, ... with activations in between; with `last`, none behind the last layer."""
    places = sorted({key[len(prefix) + 1 :].split(".")[0] for key in weights if key.startswith(f"{prefix}.")}, key=_int)
    if places != [str(2 * place) for place in range(len(places))]:
        raise UserError(f"{prefix} has layers {', '.join(places)[:60]}, not 0, 2, 4, ...")
    for place in places:
        found.add_weights("linear", weights, f"{prefix}.{place}")
        if not (last and place == places[-1]):
            found.add(activation)


def _int(text: str) -> int:
    return int(text) if text.isdecimal() else -1

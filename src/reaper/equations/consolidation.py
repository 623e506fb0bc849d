"""Elastic weight consolidation (EWC): weights that matter to earlier tasks are pulled towards their earlier values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .registry import equation

# The output layer y of fisher-eq, as a function of a network's linear outputs (N, A).
FISHER_OUTPUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda outputs: outputs,  # Q-values; the logits of a policy
    "softmax": lambda outputs: outputs.softmax(dim=1),  # the probabilities of a policy's actions
    # J^T J of 2 sqrt(p) is J_p^T diag(1 / p) J_p, the Fisher information of p as a distribution over actions.
    "categorical": lambda outputs: 2 * (outputs.log_softmax(dim=1) / 2).exp(),
}


@equation("ltm-ewc-loss")
def ltm_ewc_loss(distillation: Tensor, penalties: Tensor, ewc_lambda: float | Tensor) -> Tensor:
    """ltm-ewc-loss: mean over the batch of L_D, plus lambda / 2 times the penalty.

    distillation (N,), penalties () or, one per earlier task, (K,), which are summed; ewc_lambda lambda -> scalar.
    """
    return distillation.mean() + ewc_lambda / 2 * penalties.sum()


@equation("ewc-loss")
def ewc_loss(fisher: Iterable[Tensor], weights: Iterable[Tensor], anchor: Iterable[Tensor]) -> Tensor:
    """ewc-loss: sum over weights of F (theta - theta*)^2, for one earlier task.

    Three sequences of tensors with the same order and shapes -> scalar.
    """
    return _weighted_distance(fisher, weights, anchor)


@equation("oewc-loss")
def oewc_loss(fisher: Iterable[Tensor], weights: Iterable[Tensor], anchor: Iterable[Tensor]) -> Tensor:
    """oewc-loss: sum over weights of F* (theta - theta*)^2, with the running F* and the previous task's weights.

    Three sequences of tensors with the same order and shapes -> scalar.
    """
    return _weighted_distance(fisher, weights, anchor)


@equation("oewc-Fupdate")
def oewc_fisher_update(
    running: Mapping[str, Tensor], new: Mapping[str, Tensor], discount: float | Tensor
) -> dict[str, Tensor]:
    """oewc-Fupdate: F* = gamma F*_{t-1} + F_t, for each weight; the caller has normalised `new`.

    running and new: name of each parameter -> tensor of its shape; discount gamma -> the same mapping.
    """
    _require_same_names(running, new)
    return {name: discount * running[name] + new[name] for name in new}


@equation("fisher-eq")
def fisher_diagonal(network: nn.Module, states: Tensor, output: str = "linear", chunk: int = 64) -> dict[str, Tensor]:
    """fisher-eq: the diagonal of E[J^T J], exact: squared derivatives, summed over outputs and averaged over states.

    states (N, ...), network(states) (N, A) -> name of each parameter: tensor of its shape. beta = 1. Every parameter
    must belong to an nn.Linear or nn.Conv2d that is called once, and no layer may mix states. `chunk` bounds how many
    states are in memory at a time. `output` is what y is (FISHER_OUTPUTS): what the network returns, or its softmax.
    """
    layers, y = _layers(network), FISHER_OUTPUTS[output]
    total = {name: torch.zeros_like(weight) for name, weight in network.named_parameters()}
    for part in states.split(chunk):
        _add_squared_derivatives(network, layers, part, y, total)
    return {name: value / len(states) for name, value in total.items()}


@equation("fisher-overlap")
def fisher_overlap(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Tensor:
    """fisher-overlap: 1 - d^2 of two diagonal Fisher matrices, each normalised to unit trace.

    Two mappings with the same names and shapes -> scalar, float64. NaN where a trace is zero: there d is undefined.
    The paper gives d^2 without a label; the name is ours.
    """
    _require_same_names(first, second)
    f1 = torch.cat([first[name].flatten().double() for name in first])
    f2 = torch.cat([second[name].flatten().double() for name in first])
    f1, f2 = f1 / f1.sum(), f2 / f2.sum()
    d_squared = (f1 + f2 - 2 * (f1 * f2).sqrt()).sum() / 2
    return 1 - d_squared


def min_max_normalise(fisher: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Scales a Fisher diagonal to [0, 1] by the smallest and largest value over all weights; a constant one becomes 0.

    fisher: name of each parameter -> tensor of its shape -> the same mapping. Text of the EWC appendix; no label.
    """
    low = torch.stack([value.min() for value in fisher.values()]).min()
    high = torch.stack([value.max() for value in fisher.values()]).max()
    span = (high - low).where(high > low, torch.ones_like(low))  # a constant diagonal: 0 / 1, not 0 / 0
    return {name: (value - low) / span for name, value in fisher.items()}


def _weighted_distance(fisher: Iterable[Tensor], weights: Iterable[Tensor], anchor: Iterable[Tensor]) -> Tensor:
    terms = [(f * (w - a).square()).sum() for f, w, a in zip(fisher, weights, anchor, strict=True)]
    return torch.stack(terms).sum()


def _require_same_names(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> None:
    if first.keys() != second.keys():
        raise ValueError(f"Fisher matrices of different networks: {sorted(first.keys() ^ second.keys())} in only one")


def _layers(network: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    """The layers that hold the network's parameters, by name; a ValueError for layers of other kinds."""
    layers: dict[str, nn.Linear | nn.Conv2d] = {}
    for name, layer in network.named_modules():
        if not list(layer.parameters(recurse=False)):
            continue
        if isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and _is_plain(layer)):
            layers[name] = layer
        else:
            raise ValueError(f"fisher_diagonal handles Linear and plain Conv2d layers; '{name}' is {layer}")
    held = sum(len(list(layer.parameters(recurse=False))) for layer in layers.values())
    if held != len(list(network.parameters())):
        raise ValueError("fisher_diagonal does not handle parameters shared between layers")
    return layers


def _is_plain(layer: nn.Conv2d) -> bool:
    return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


@torch.enable_grad()
def _add_squared_derivatives(
    network: nn.Module,
    layers: Mapping[str, nn.Linear | nn.Conv2d],
    states: Tensor,
    y: Callable[[Tensor], Tensor],
    total: dict[str, Tensor],
) -> None:
    """Adds to `total` the squared derivative of every output, for every state.

    One batched backward pass per output yields the derivatives with respect to each layer's result, for each state.
    Those with respect to a layer's weights are products with the layer's inputs (the chain rule). No state needs a
    backward pass of its own: at the paper's size on a CPU, this is dozens of times faster than vmap over states.
    """
    outputs, inputs, probes = _hooked_forward(network, layers, states)
    prepared = {name: _prepare(layer, inputs[name]) for name, layer in layers.items()}
    results = [probes[name] for name in layers]
    for output in y(outputs).unbind(dim=1):
        deltas = torch.autograd.grad(output.sum(), results, retain_graph=True)
        for (name, layer), delta in zip(layers.items(), deltas, strict=True):
            weight, bias = _squares(layer, prepared[name], delta)
            prefix = f"{name}." if name else ""
            total[f"{prefix}weight"] += weight
            if layer.bias is not None:
                total[f"{prefix}bias"] += bias


def _hooked_forward(
    network: nn.Module, layers: Mapping[str, nn.Linear | nn.Conv2d], states: Tensor
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """The network's outputs, the input of each layer, and for each layer a tensor of zeros added to its result.

    The derivative with respect to these zeros is that with respect to the result, even where the weights are frozen or
    an in-place activation overwrites the result.
    """
    inputs: dict[str, Tensor] = {}
    probes: dict[str, Tensor] = {}

    def record(name: str, _layer: nn.Module, arguments: tuple[Tensor, ...], result: Tensor) -> Tensor:
        if name in inputs:
            raise ValueError(f"fisher_diagonal handles layers called once per pass; '{name}' is called again")
        inputs[name] = arguments[0].detach()
        probes[name] = torch.zeros_like(result, requires_grad=True)
        return result + probes[name]

    hooks = [layer.register_forward_hook(partial(record, name)) for name, layer in layers.items()]
    try:
        outputs = network(states)
    finally:
        for hook in hooks:
            hook.remove()
    if uncalled := layers.keys() - inputs.keys():
        raise ValueError(f"fisher_diagonal: the network has layers that it never calls: {sorted(uncalled)}")
    return outputs, inputs, probes


def _prepare(layer: nn.Linear | nn.Conv2d, inputs: Tensor) -> Tensor:
    if isinstance(layer, nn.Linear):
        if inputs.ndim != 2:
            raise ValueError(f"fisher_diagonal handles Linear layers on (N, features), not {tuple(inputs.shape)}")
        return inputs.square()  # (N, in)
    assert not isinstance(layer.padding, str)  # `_layers` rejects it
    patches = F.unfold(inputs, layer.kernel_size, dilation=layer.dilation, padding=layer.padding, stride=layer.stride)
    return patches.transpose(1, 2)  # (N, positions, in * height * width)


def _squares(layer: nn.Linear | nn.Conv2d, prepared: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over states of the squared derivatives with respect to the layer's weight and to its bias."""
    if isinstance(layer, nn.Linear):
        squared = delta.square()  # (delta x)^2 = delta^2 x^2: a Linear weight is used once per state
        return squared.T @ prepared, squared.sum(dim=0)
    by_position = delta.flatten(start_dim=2)  # (N, out, positions): a Conv2d weight is used at every position
    by_state = torch.bmm(by_position, prepared)
    return by_state.square().sum(dim=0).view_as(layer.weight), by_position.sum(dim=2).square().sum(dim=0)

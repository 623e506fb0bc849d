"""Weight gradients computed concurrently on a GPU.

Only the optimiser needs the gradient of a layer's weights, while the gradients of activations depend on each other,
layer by layer. At a batch of 32 none of these kernels fills a GPU. So a compiler pass defers all weight gradients to
the end of the backward pass, where one operator computes each on its own CUDA stream:

    in turn       dX3 dW3 dX2 dW2 dX1 dW1                  (X: activations, W: weights)
    concurrent    dX3 dX2 dX1 | dW3
                              | dW2
                              | dW1

Gain: 6,760 instead of 6,275 updates/s on an H200 (7.7 %).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

aten = torch.ops.aten
CONV_BACKWARD = aten.convolution_backward.default
PRODUCTS = (aten.convolution.default, CONV_BACKWARD, aten.mm.default, aten.addmm.default)
CONV_ARGS = 10  # integers per convolution: stride, padding, dilation, transposed, output padding, groups


@functools.cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _run_concurrently(work: list[Callable[[], torch.Tensor]], device: torch.device) -> list[torch.Tensor]:
    if device.type != "cuda":
        return [each() for each in work]
    here = torch.cuda.current_stream(device)
    sides = [_stream(device, number) for number in range(len(work) - 1)]
    for side in sides:
        side.wait_stream(here)
    done = []
    for stream, each in zip([*sides, here], work, strict=True):
        with torch.cuda.stream(stream):
            done.append(each())
    for side in sides:
        here.wait_stream(side)
    return done


def _kernel_gradient(
    gradients: torch.Tensor, activations: torch.Tensor, kernel: torch.Tensor, conv_args: list[int]
) -> torch.Tensor:
    stride, padding, dilation, output_padding = conv_args[0:2], conv_args[2:4], conv_args[4:6], conv_args[7:9]
    args = (None, stride, padding, dilation, bool(conv_args[6]), output_padding, conv_args[9], (False, True, False))
    return aten.convolution_backward(gradients, activations, kernel, *args)[1]


@torch.library.custom_op("reaper::weight_gradients", mutates_args=())
def weight_gradients(
    gradients: list[torch.Tensor],
    activations: list[torch.Tensor],
    kernels: list[torch.Tensor],
    conv_args: list[int],
    lefts: list[torch.Tensor],
    rights: list[torch.Tensor],
) -> list[torch.Tensor]:
    """The weight gradients of convolutions (gradients of their outputs, inputs, kernels, ten integers each) and of
    linear layers (products of `lefts` and `rights`)."""
    work: list[Callable[[], torch.Tensor]] = []
    for number, args in enumerate(zip(gradients, activations, kernels, strict=True)):
        own_args = conv_args[CONV_ARGS * number : CONV_ARGS * (number + 1)]
        work.append(functools.partial(_kernel_gradient, *args, own_args))
    work += [functools.partial(torch.mm, left, right) for left, right in zip(lefts, rights, strict=True)]
    return _run_concurrently(work, gradients[0].device)


@weight_gradients.register_fake
def _shapes(
    gradients: Any, activations: Any, kernels: Any, conv_args: Any, lefts: Any, rights: Any
) -> list[torch.Tensor]:
    per_layer = [conv_args[at : at + CONV_ARGS] for at in range(0, len(conv_args), CONV_ARGS)]
    found = [_kernel_gradient(*args) for args in zip(gradients, activations, kernels, per_layer, strict=True)]
    return found + [torch.mm(left, right) for left, right in zip(lefts, rights, strict=True)]


class DeferWeightGradients(CustomGraphPass):
    """Rewrites a traced update: products that no other product depends on become one operator."""

    def __call__(self, graph: Graph) -> None:
        needed = _needed_by_products(graph)
        convolutions = {node: kernel for node, kernel in _kernel_gradients(graph) if kernel not in needed}
        products = [node for node in graph.nodes if node.target is aten.mm.default and node not in needed]
        if not convolutions or len(convolutions) + len(products) < 2:
            return
        operands = [list(column) for column in zip(*(node.args[:3] for node in convolutions), strict=True)]
        conv_args = [number for node in convolutions for number in _conv_args(node)]
        matrices = [[node.args[side] for node in products] for side in (0, 1)]
        last = [node for node in graph.nodes if node in convolutions or node in products][-1]
        with graph.inserting_after(last):  # the compiler moves their users behind it
            together = graph.call_function(torch.ops.reaper.weight_gradients.default, (*operands, conv_args, *matrices))
        replaced = [*convolutions.values(), *products]
        together.meta["val"] = [node.meta["val"] for node in replaced]
        for number, node in enumerate(replaced):
            with graph.inserting_after(together):
                item = graph.call_function(operator.getitem, (together, number))
            item.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(item)
            graph.erase_node(node)
        for node in convolutions:
            _drop_kernel_gradient(graph, node)

    def uuid(self) -> Any:
        return get_hash_for_files((__file__,))


def _drop_kernel_gradient(graph: Graph, backward: Node) -> None:
    """Leaves the gradients of inputs and biases to a backward convolution, or removes it if there are none."""
    args: Any = backward.args
    for_inputs, _, for_biases = args[-1]
    if for_inputs or for_biases:
        backward.args = (*args[:-1], (for_inputs, False, for_biases))
    else:
        graph.erase_node(backward)


def _kernel_gradients(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """The backward convolutions, each with the node that takes its kernel gradient."""
    for node in graph.nodes:
        if node.target is CONV_BACKWARD:
            yield from ((node, user) for user in node.users if user.args[1] == 1)


def _conv_args(convolution: Node) -> list[int]:
    args: Any = convolution.args
    _, _, _, _, stride, padding, dilation, transposed, output_padding, groups, _ = args
    return [*stride, *padding, *dilation, int(transposed), *output_padding, groups]


def _needed_by_products(graph: Graph) -> set[Node]:
    """Everything that a product depends on, directly or not."""
    needed: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.target in PRODUCTS or node in needed:
            needed.update(node.all_input_nodes)
    return needed

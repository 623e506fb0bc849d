"""Gradients of weights, side by side on a GPU.

Nothing waits for the gradient of a layer's weights but the optimiser, while those of the layers' inputs wait for one
another; and at 32 states none of them fills a GPU. So the compiler is told to put the gradients of weights off to the
end, where they are one operation that computes each on a stream of its own.
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
SLOPES = aten.convolution_backward.default
PRODUCTS = (aten.convolution.default, SLOPES, aten.mm.default, aten.addmm.default)
NUMBERS = 10  # that describe a convolution: stride, padding and dilation, transposed or not, output padding, groups


@functools.cache
def _stream(device: torch.device, number: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _at_once(work: list[Callable[[], torch.Tensor]], device: torch.device) -> list[torch.Tensor]:
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


def _of_kernel(slopes: torch.Tensor, maps: torch.Tensor, kernel: torch.Tensor, how: list[int]) -> torch.Tensor:
    stride, padding, dilation, output_padding = how[0:2], how[2:4], how[4:6], how[7:9]
    words = (None, stride, padding, dilation, bool(how[6]), output_padding, how[9], (False, True, False))
    return aten.convolution_backward(slopes, maps, kernel, *words)[1]


@torch.library.custom_op("reaper::gradients_of_weights", mutates_args=())
def gradients_of_weights(
    slopes: list[torch.Tensor],
    maps: list[torch.Tensor],
    kernels: list[torch.Tensor],
    how: list[int],
    lefts: list[torch.Tensor],
    rights: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Of convolutions (slopes of their outputs, their inputs, their kernels, ten numbers each), and, as products of two
    matrices, of linear layers."""
    work: list[Callable[[], torch.Tensor]] = []
    for number, words in enumerate(zip(slopes, maps, kernels, strict=True)):
        work.append(functools.partial(_of_kernel, *words, how[NUMBERS * number : NUMBERS * (number + 1)]))
    work += [functools.partial(torch.mm, left, right) for left, right in zip(lefts, rights, strict=True)]
    return _at_once(work, slopes[0].device)


@gradients_of_weights.register_fake
def _shapes(slopes: Any, maps: Any, kernels: Any, how: Any, lefts: Any, rights: Any) -> list[torch.Tensor]:
    numbers = [how[at : at + NUMBERS] for at in range(0, len(how), NUMBERS)]
    found = [_of_kernel(*words) for words in zip(slopes, maps, kernels, numbers, strict=True)]
    return found + [torch.mm(left, right) for left, right in zip(lefts, rights, strict=True)]


class PutOffGradientsOfWeights(CustomGraphPass):
    """Rewrites a traced update: products that no other product waits for become one operation."""

    def __call__(self, graph: Graph) -> None:
        waited_for = _waited_for(graph)
        convolutions = {node: kernel for node, kernel in _kernel_slopes(graph) if kernel not in waited_for}
        products = [node for node in graph.nodes if node.target is aten.mm.default and node not in waited_for]
        if not convolutions or len(convolutions) + len(products) < 2:
            return
        operands = [list(column) for column in zip(*(node.args[:3] for node in convolutions), strict=True)]
        how = [number for node in convolutions for number in _numbers(node)]
        matrices = [[node.args[side] for node in products] for side in (0, 1)]
        last = [node for node in graph.nodes if node in convolutions or node in products][-1]
        with graph.inserting_after(last):  # what uses them is moved behind it by the compiler
            together = graph.call_function(torch.ops.reaper.gradients_of_weights.default, (*operands, how, *matrices))
        found = [*convolutions.values(), *products]
        together.meta["val"] = [node.meta["val"] for node in found]
        for number, node in enumerate(found):
            with graph.inserting_after(together):
                part = graph.call_function(operator.getitem, (together, number))
            part.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(part)
            graph.erase_node(node)
        for node in convolutions:
            words: Any = node.args
            for_maps, _, for_biases = words[-1]
            if for_maps or for_biases:
                node.args = (*words[:-1], (for_maps, False, for_biases))
            else:
                graph.erase_node(node)

    def uuid(self) -> Any:
        return get_hash_for_files((__file__,))


def _kernel_slopes(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """The backward convolutions, and where their gradients of kernels are taken up."""
    for node in graph.nodes:
        if node.target is SLOPES:
            yield from ((node, user) for user in node.users if user.args[1] == 1)


def _numbers(convolution: Node) -> list[int]:
    words: Any = convolution.args
    _, _, _, _, stride, padding, dilation, transposed, output_padding, groups, _ = words
    return [*stride, *padding, *dilation, int(transposed), *output_padding, groups]


def _waited_for(graph: Graph) -> set[Node]:
    """What a product depends on, directly or not."""
    waited_for: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.target in PRODUCTS or node in waited_for:
            waited_for.update(node.all_input_nodes)
    return waited_for

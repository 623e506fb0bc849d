"""An agent as an ONNX graph: states in (`input`), one value per action out (`values`); the caller takes the argmax.

The graph is written node by node. That needs the package onnx and nothing else, and the file stays the same from one
version of torch to the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from reaper.errors import UserError
from reaper.export.plain_network import PlainNetwork
from reaper.storage.files import atomic_write

OPSET = 17
IR_VERSION = 8  # the one that came with this opset, so that older runtimes read the file


def write_onnx(file: Path, network: PlainNetwork) -> None:
    try:
        import onnx  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError("--what onnx needs the package onnx: pip install 'reaper-rl[onnx]'") from None
    helper, types = onnx.helper, onnx.TensorProto
    graph = _Graph(helper, types)
    value = graph.add("Cast", ["input"], to=types.FLOAT)
    if network.scaled:
        value = graph.add("Div", [value, graph.constant("full_scale", torch.tensor(255.0))])
    for layer in network.layers:
        value = graph.layer(layer, value)
    graph.add("Identity", [value], output="values")
    kind = types.UINT8 if network.dtype == "uint8" else types.FLOAT
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "agent",
            [helper.make_tensor_value_info("input", kind, ["batch", *network.shape])],
            [helper.make_tensor_value_info("values", types.FLOAT, ["batch", network.num_actions])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="reaper",
    )
    onnx.checker.check_model(model)
    atomic_write(file, model.SerializeToString())


class _Graph:
    """Nodes and constants, in order."""

    def __init__(self, helper: Any, types: Any) -> None:
        self._helper, self._types = helper, types
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, name: str, tensor: torch.Tensor) -> str:
        data = tensor.detach().cpu().float().contiguous()
        raw = data.numpy().astype("<f4").tobytes()
        self.constants.append(self._helper.make_tensor(name, self._types.FLOAT, tuple(data.shape), raw, raw=True))
        return name

    def layer(self, layer: nn.Module, value: str) -> str:
        place = len(self.nodes)
        if isinstance(layer, nn.ReLU):
            return self.add("Relu", [value])
        if isinstance(layer, nn.Flatten):
            return self.add("Flatten", [value], axis=1)
        assert isinstance(layer, (nn.Linear, nn.Conv2d))
        assert layer.bias is not None
        weights = [self.constant(f"{part}_{place}", getattr(layer, part)) for part in ("weight", "bias")]
        if isinstance(layer, nn.Linear):
            return self.add("Gemm", [value, *weights], transB=1)
        padding = [int(side) for side in layer.padding]
        return self.add("Conv", [value, *weights], strides=list(layer.stride), pads=[*padding, *padding])

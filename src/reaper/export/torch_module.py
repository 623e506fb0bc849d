"""An agent as a torch module: a folder with its weights and a short file that needs nothing but torch."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import nn

from reaper.export.plain_network import PlainNetwork
from reaper.storage.files import atomic_dir

_MODULE = '''"""An agent that reaper exported. Needs torch only:

    from agent import load
    network = load()                                    # reads agent.pt, next to this file
    actions = network(states).argmax(dim=1)             # states: {dtype} (N, {shape})
"""

from pathlib import Path

import torch
from torch import nn

TASKS = {tasks}
NUM_ACTIONS = {num_actions}  # of each task, by name


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            {layers},
        )

    def forward(self, states):
        return self.layers(states.float(){scaling})


def load(path=Path(__file__).with_name("agent.pt")):
    network = Agent()
    network.load_state_dict(torch.load(path, weights_only=True))
    return network.eval()
'''


def write_torch(folder: Path, network: PlainNetwork, num_actions: dict[str, int]) -> None:
    """`num_actions` maps each task to its number of actions: an agent takes the argmax over the first so many."""
    weights = {f"layers.{name}": tensor for name, tensor in nn.Sequential(*network.layers).state_dict().items()}
    data = io.BytesIO()
    torch.save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}, data)
    text = _MODULE.format(
        dtype=network.dtype,
        shape=", ".join(map(str, network.shape)),
        tasks=tuple(num_actions),
        num_actions=num_actions,
        layers=",\n            ".join(map(_constructor, network.layers)),
        scaling=" / 255" if network.scaled else "",
    )
    with atomic_dir(folder) as part:
        (part / "agent.pt").write_bytes(data.getvalue())
        (part / "agent.py").write_text(text)


def _constructor(layer: nn.Module) -> str:
    """The call that makes a layer."""
    if isinstance(layer, nn.Linear):
        return f"nn.Linear({layer.in_features}, {layer.out_features})"
    if isinstance(layer, nn.Conv2d):
        sizes = f"{layer.in_channels}, {layer.out_channels}, {tuple(layer.kernel_size)}"
        return f"nn.Conv2d({sizes}, stride={tuple(layer.stride)}, padding={tuple(layer.padding)})"  # type: ignore[arg-type]
    return f"nn.{type(layer).__name__}()"

"""Checking a long-term memory that may come from elsewhere: a pack, an exported folder, another run."""

from __future__ import annotations

import torch

from reaper.config.overrides import check
from reaper.config.sparse_json import from_json
from reaper.context import Context
from reaper.errors import UserError
from reaper.generators import generator_for
from reaper.storage.find import FoundMemory


def check_memory(found: FoundMemory, device: str = "cpu") -> Context:
    """A context in which the memory's agent can act; weights that do not fit the memory's own settings are refused."""
    num_actions, given = found.spec.get("num_actions"), found.spec.get("settings")
    if type(num_actions) is not int or num_actions < 1 or not isinstance(given, dict):
        raise UserError("this long-term memory does not state its number of actions and its settings")
    settings = from_json(given)
    check(settings)
    # "play" is part of the key of the agent's random streams: renaming it would change its recorded episodes.
    context = Context(settings, num_actions, seed=0, names=("play",), device=torch.device(device))
    context.q_network(found.memory.agent)
    if generator := found.memory.part("generator"):
        generator_for(settings).load(context, generator)
    return context

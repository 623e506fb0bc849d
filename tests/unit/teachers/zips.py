"""Zips as SB3 writes them, made by hand: quick, and without importing SB3."""

import io
import itertools
import json
import zipfile

import torch

ARCADE_SHAPE = (2, 16, 16)


def saved(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def linear_layers(prefix, sizes, rng):
    weights = {}
    for place, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        weights[f"{prefix}.{2 * place}.weight"] = torch.randn((outputs, inputs), generator=rng) / inputs**0.5
        weights[f"{prefix}.{2 * place}.bias"] = torch.randn(outputs, generator=rng) / 10
    return weights


def write_sb3(path, algorithm="dqn", shape=ARCADE_SHAPE, num_actions=6, seed=0, dtype="uint8"):
    """An MLP policy of DQN (two hidden layers) or PPO (one) with random weights."""
    rng, inputs = torch.Generator().manual_seed(seed), int(torch.tensor(shape).prod())
    if algorithm == "dqn":
        weights = linear_layers("q_net.q_net", (inputs, 16, 16, num_actions), rng)
    else:
        weights = linear_layers("mlp_extractor.policy_net", (inputs, 16), rng)
        head = linear_layers("action_net", (16, num_actions), rng)
        weights |= {name.replace(".0.", "."): tensor for name, tensor in head.items()}
    data = {
        "observation_space": {":type:": "<class 'gymnasium.spaces.box.Box'>", "dtype": dtype, "_shape": list(shape)},
        "action_space": {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": str(num_actions)},
        "policy_kwargs": {},
    }
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("data", json.dumps(data))
        out.writestr("policy.pth", saved(weights))
    return f"sb3:{path}"

"""How many compressed items of Atari games fit in the bytes that the paper gives `reh-limit-comp`, and how fast.

    python benchmarks/stored_items.py

Plays each game of the pretrained atari-3 agent, at random and by the agent, and compresses states of that play.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import reaper
from reaper.learning.actor import new_actor
from reaper.memory.compression import Codec, LzmaCodec, ZlibCodec
from reaper.retention import CompressedRehearsal
from reaper.retention.rehearsal import END_BYTES
from reaper.tasks.sequence import find_task

NUM_ENVS, AGENT_STEPS, EXPLORATION = 4, 600, 0.1


def play(agent: reaper.Agent, task: str, epsilon: float, count: int) -> torch.Tensor:
    """(count, *observation.shape) states, spread evenly over the play of a few environments."""
    envs = agent.context.open(find_task(task), NUM_ENVS)
    actor, rng = new_actor(agent.context, envs, compiled=False), agent.context.cpu_rng("stored items")
    actor.reset(1)
    states = []
    for _ in range(AGENT_STEPS):
        actor.act(agent.network, epsilon, rng)
        actor.observe()
        states.append(actor.states.clone())
    envs.close()
    seen = torch.cat(states)
    return seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(0))[:count]]


def measure(codec: Codec, states: np.ndarray) -> tuple[float, float, float]:
    """Bytes, milliseconds to compress and milliseconds to decompress, each per item."""
    start = time.process_time()
    packed = [codec.compress(state) for state in states]
    between = time.process_time()
    for item, state in zip(packed, states, strict=True):
        assert np.array_equal(codec.decompress(item, state.shape), state)
    end = time.process_time()
    size = np.mean([len(item) for item in packed]) + END_BYTES
    return float(size), 1e3 * (between - start) / len(states), 1e3 * (end - between) / len(states)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="states per game and kind of play")
    count = parser.parse_args().count
    torch.set_num_threads(1)
    agent = reaper.load("pretrained:atari-3")
    share = CompressedRehearsal().capacity * agent.observation.num_bytes / len(agent.tasks)
    for kind, epsilon in (("random", 1.0), ("trained", EXPLORATION)):
        totals = {"zlib": 0.0, "lzma": 0.0}
        for task in agent.tasks:
            states = play(agent, task, epsilon, count)
            fitted = LzmaCodec.fit(states, max_bytes=int(share / 10))
            for name, codec, spent in (("zlib", ZlibCodec(), 0), ("lzma", fitted, fitted.background.nbytes)):
                size, packing, unpacking = measure(codec, states.numpy())
                items = (share - spent) / size
                totals[name] += items
                print(
                    f"{task:18} {kind:8} {name}  {size:6.0f} bytes, {items:6.0f} items in a third of the room, "
                    f"{packing:.2f} ms to compress, {unpacking:.2f} ms to decompress"
                )
        print(f"{kind} play, all games: " + ", ".join(f"{name} {total:,.0f} items" for name, total in totals.items()))


if __name__ == "__main__":
    main()

"""How quickly a short-term DQN learns a game: its mean training scores by agent steps. A check that what makes
training quicker does not make it worse.

    python benchmarks/learning.py --frames 2000000 --seed 1 --json boxing-1.json
    python benchmarks/learning.py --frames 2000000 --seed 1 --newest-weights    # on a GPU: deviation 12 left out

Several can run side by side; `--emulator-threads` divides the cores among them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from reaper.compute.compilation import flush_denormals, prepare_torch
from reaper.context import Context, compile_options
from reaper.engines.resources import keep_freed_memory, resolve_device
from reaper.errors import UserError
from reaper.learning.short_term import ShortTerm
from reaper.learning.trainer import Trainer
from reaper.study.plan import resolve_settings
from reaper.tasks.sequence import find_sequence

POINTS = 10  # of the curve


def learner(task: str, seed: int, device: torch.device, emulator_threads: int | None) -> ShortTerm:
    """As a run has it."""
    sequence = find_sequence(task)
    _, settings = resolve_settings(sequence)
    names, options = ("short-term", sequence.names[0]), compile_options(settings, device)
    context = Context(
        settings, sequence.num_actions, seed, names, device=device, emulator_threads=emulator_threads, **options
    )
    return ShortTerm(context, sequence.tasks[0])


def scores_of(trainer: Trainer, frames: int) -> list[tuple[int, float]]:
    """The games that end while it practises, with the agent steps at their ends."""
    actor, replay = trainer.actor, trainer.replay
    assert actor is not None
    assert replay is not None
    replay.truncate()
    actor.begin(trainer.context.derive_seed("games", 0))
    ended: list[tuple[int, float]] = []
    take = actor.take_scores

    def noted() -> list[float]:
        scores = take()
        ended.extend((trainer.agent_steps, score) for score in scores)
        return scores

    actor.take_scores = noted
    start, told = time.perf_counter(), 0
    while trainer.agent_steps < frames:
        trainer.step()
        if trainer.agent_steps * POINTS // frames > told:
            told = trainer.agent_steps * POINTS // frames
            rate = trainer.agent_steps / (time.perf_counter() - start)
            recent = [score for frame, score in ended if frame > trainer.agent_steps - frames / POINTS]
            mean = f"{statistics.mean(recent):.1f}" if recent else "no game ended"
            print(f"{trainer.agent_steps:,} frames: {mean} in {len(recent)} games; {rate:,.0f} frames/s", flush=True)
    trainer.settle()
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="ALE/Boxing-v5")
    parser.add_argument("--frames", type=int, default=2_000_000, help="agent steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--emulator-threads", type=int, help="threads that step the environments")
    parser.add_argument("--newest-weights", action="store_true", help="choose actions by weights that are up to date")
    parser.add_argument("--json", type=Path, help="a file for [agent steps, score] of every game")
    words = parser.parse_args()
    if words.frames < 1 or (words.json and not words.json.absolute().parent.is_dir()):
        parser.error("--frames must be at least 1, and the folder of --json must be there")
    try:
        device = torch.device(resolve_device(words.device))
        find_sequence(words.task)
    except UserError as error:
        parser.error(str(error)[:200])
    if device.type == "cuda" or not words.task.startswith("ALE/"):
        torch.set_num_threads(1)  # more would take the emulators' cores, and small networks have no use for them
    keep_freed_memory()
    prepare_torch(device)
    if words.newest_weights:
        Trainer._acting_weights = lambda self: self.weights
    with flush_denormals():
        found = learner(words.task, words.seed, device, words.emulator_threads)
        ended = scores_of(found.trainer, words.frames)
        found.close()
    if words.json:
        words.json.write_text(json.dumps(ended))


if __name__ == "__main__":
    main()

"""The learning curve of a short-term DQN: mean training scores by agent steps, and the score of its last weights.
Shows whether a faster variant of training learns as well, and what a setting is worth.

    python benchmarks/learning.py --steps 2000000 --seed 1 --json boxing-1.json
    python benchmarks/learning.py --set short-term.n-step=3 --set network.initialisation=he --evaluate
    python benchmarks/learning.py --steps 2000000 --seed 1 --newest-weights    # on a GPU: without deviation 31

Several can run at once; `--emulator-threads` divides the cores among them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from reaper.compute.compilation import flush_denormals, prepare_torch
from reaper.config.settings import Settings
from reaper.context import Context, compile_options
from reaper.engines.resources import keep_freed_memory, resolve_device
from reaper.errors import UserError
from reaper.learning.evaluation.episodes import evaluate
from reaper.learning.short_term import ShortTerm
from reaper.learning.trainer import Trainer
from reaper.study.plan import resolve_settings
from reaper.tasks.sequence import find_sequence

POINTS = 10  # of the curve


def new_learner(
    task: str, settings: Settings, seed: int, device: torch.device, emulator_threads: int | None
) -> ShortTerm:
    """Short-term learning of a task, as in a run."""
    sequence = find_sequence(task)
    names, options = ("short-term", sequence.names[0]), compile_options(settings, device)
    context = Context(
        settings, sequence.num_actions, seed, names, device=device, emulator_threads=emulator_threads, **options
    )
    return ShortTerm(context, sequence.tasks[0])


def train(trainer: Trainer, steps: int) -> list[tuple[int, float]]:
    """Trains for this many agent steps; returns the agent steps and the score at the end of each episode."""
    assert trainer.experience is not None
    trainer.experience.reset(trainer.context.derive_seed("games", 0))
    returns = trainer.experience.actor.statistics
    episodes: list[tuple[int, float]] = []
    take_scores = returns.take

    def record_scores() -> list[float]:
        scores = take_scores()
        episodes.extend((trainer.agent_steps, score) for score in scores)
        return scores

    returns.take = record_scores
    start, points = time.perf_counter(), 0
    while trainer.agent_steps < steps:
        trainer.step()
        if trainer.agent_steps * POINTS // steps > points:
            points = trainer.agent_steps * POINTS // steps
            report(trainer.agent_steps, episodes, window=steps / POINTS, seconds=time.perf_counter() - start)
    trainer.flush()
    return episodes


def report(agent_steps: int, episodes: list[tuple[int, float]], *, window: float, seconds: float) -> None:
    """Prints the mean score of the episodes that ended within the last `window` agent steps."""
    recent = [score for step, score in episodes if step > agent_steps - window]
    mean = f"mean score {statistics.mean(recent):.1f}" if recent else "no score"
    rate = agent_steps / seconds
    print(f"{agent_steps:,} agent steps: {mean} in {len(recent)} episodes; {rate:,.0f} agent steps/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="ALE/Boxing-v5")
    parser.add_argument("--steps", type=int, default=2_000_000, help="agent steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--preset", help="the settings to start from; see `reaper presets`")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--emulator-threads", type=int, help="threads that step the environments")
    parser.add_argument(
        "--newest-weights", action="store_true", help="act with the newest weights, not those before the last updates"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="changes a setting")
    parser.add_argument("--evaluate", action="store_true", help="evaluate the last weights")
    parser.add_argument("--json", type=Path, help="a file for [agent steps, score] of each episode, and the evaluation")
    arguments = parser.parse_args()
    if arguments.steps < 1 or (arguments.json and not arguments.json.absolute().parent.is_dir()):
        parser.error("--steps must be at least 1, and the folder of --json must exist")
    try:
        device = torch.device(resolve_device(arguments.device))
        overrides = dict(text.split("=", 1) for text in arguments.set if "=" in text)
        _, settings = resolve_settings(find_sequence(arguments.task), preset=arguments.preset, overrides=overrides)
    except UserError as error:
        parser.error(str(error)[:200])
    if device.type == "cuda" or not arguments.task.startswith("ALE/"):
        torch.set_num_threads(1)  # more would take cores from the emulators, and small networks gain nothing
    keep_freed_memory()
    prepare_torch(device)
    if arguments.newest_weights:
        Trainer._acting_weights = lambda self: self.weights
    with flush_denormals():
        learner = new_learner(arguments.task, settings, arguments.seed, device, arguments.emulator_threads)
        episodes = train(learner.trainer, arguments.steps)
        learner.close()
        scores = []
        if arguments.evaluate:
            scores = evaluate(learner.context, learner.network, learner.task, arguments.steps)["scores"]
            print(f"last weights: {statistics.mean(scores):.1f} in {len(scores)} episodes", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"episodes": episodes, "evaluation": scores}))


if __name__ == "__main__":
    main()

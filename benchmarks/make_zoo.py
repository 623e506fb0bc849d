"""Adds the long-term memory of a finished run to the zoo: a pack in half precision, its scores, and its card.

    python benchmarks/make_zoo.py STORE NAME [--condition RePR] [--seed 0] [--episodes 30] [--folder src/reaper/zoo]

The scores are measured with the pack itself, loaded as a user would load it. The card compares them with scores of the
run: the same agent in full precision, one DQN per task, and random play.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reaper.agent import Agent, load
from reaper.config.settings import Settings
from reaper.errors import ReaperError, UserError
from reaper.generators import generator_for
from reaper.learning.evaluation.episodes import evaluate
from reaper.results.runs import RunResult, read_results
from reaper.storage.files import atomic_write, sha256, write_checksummed
from reaper.storage.find import RunChoice, choose_memory
from reaper.storage.pack import export_weights
from reaper.storage.store import Store
from reaper.tasks.sequence import find_task
from reaper.zoo import entries

MAX_BYTES = 12 << 20  # of a pack, since it is part of the package
ZOO = Path(__file__).parent.parent / "src" / "reaper" / "zoo"


def measure_scores(agent: Agent, episodes: int) -> dict[str, list[float]]:
    """Task -> returns of this many episodes, played as in an `evaluate` stage."""
    settings = agent.context.settings
    evaluation = replace(settings.evaluation, episodes=episodes)
    context = replace(agent.context, settings=replace(settings, evaluation=evaluation))
    scores = {}
    for name in agent.tasks:
        scores[name] = evaluate(context, agent.network, find_task(name), 0)["scores"]
        print(f"{name}: {np.mean(scores[name]):.2f} over {episodes} episodes", flush=True)
    return scores


def score_facts(result: RunResult, scores: dict[str, list[float]]) -> dict[str, Any]:
    """The scores of the pack, and those of the run that it is compared with."""

    def summary(returns: Any) -> dict[str, float]:
        return {"mean": round(float(np.mean(returns)), 4), "deviation": round(float(np.std(returns)), 4)}

    def of_run(returns: np.ndarray) -> dict[str, dict[str, float]]:
        known = zip(result.tasks, returns, strict=True)
        return {task: summary(episodes) for task, episodes in known if not np.isnan(episodes).any()}

    return {
        "episodes": len(next(iter(scores.values()))),
        "scores": {task: summary(returns) for task, returns in scores.items()},
        "full_precision": of_run(result.final),
        "single": of_run(result.single),
        "random": of_run(result.random),
    }


def run_facts(store: Store, result: RunResult, memory: str) -> dict[str, Any]:
    """How the memory was trained; `memory` is the digest of its stage."""
    provenance = store.stage(memory).provenance()
    return {
        "condition": result.name,
        "sequence": result.sequence,
        "tasks": result.tasks,
        "titles": result.titles,
        "seed": result.seed,
        "preset": store.header.preset,
        "fraction": store.header.fraction,
        "version": store.header.version,
        "device": f"{provenance.device} ({provenance.processor})",
        "command": f"{result.record.command} --out OUT",
    }


def card(name: str, facts: dict[str, Any], settings: Settings) -> str:
    """The model card, in Markdown."""
    frames, condition = settings.observation, facts["condition"]
    first = facts["tasks"][0].removeprefix("ALE/").split("-v")[0]
    size = f"{frames.frame_size} x {frames.frame_size}"
    preset = f" --preset {facts['preset']}" if "preset" in facts else ""  # cards of 0.1 do not say
    return f"""# {name}

One network that plays {len(facts["tasks"])} games, learnt one after another: {", ".join(facts["titles"])}.
It was trained by {condition}. The pack holds the long-term memory in half precision: {facts["bytes"]:,} bytes.

## Scores

Mean ± standard deviation of the return of an episode, with {settings.evaluation.epsilon:.0%} random actions. A
normalised score of 0 is random play, and 1 is a DQN trained with the same budget on that game alone. The first column
is this pack ({facts["episodes"]} episodes), the second the same agent in full precision.

{_score_table(facts)}

## Training

```sh
{facts["command"]}
```

reaper {facts["version"]}, seed {facts["seed"]}, fraction of the budget {facts["fraction"]:g}, on {facts["device"]}:

- {settings.short_term.agent_steps:,} agent steps per game for its own DQN,
- {settings.long_term.agent_steps:,} agent steps per game for the long-term network,
- {generator_for(settings).steps:,} steps per generator, if the condition has one.

An agent step is four emulator frames on Atari. Compare with published scores only at the same budget.

## Use

```sh
reaper play --pretrained {name} --task {first} --video {first.lower()}.gif
reaper run {condition} --continue-from pretrained:{name} --tasks ANOTHER-TASK{preset} --out runs/further
```

## Limits

- This is one seed. {facts["titles"][-1]} was learnt last; the games before it may have been partly forgotten.
- It plays only these games, from stacks of {frames.frame_stack} frames of {size} pixels. It was never evaluated
  with sticky actions or other variants of the games.
- Weights are rounded to half precision, so training that continues from the pack differs from the original run.
"""


def _score_table(facts: dict[str, Any]) -> str:
    header = "| game | this pack | full precision | single | random | normalised |"
    lines = [header, "|---|---:|---:|---:|---:|---:|"]
    for task, title in zip(facts["tasks"], facts["titles"], strict=True):
        rows = [facts[part].get(task) for part in ("scores", "full_precision", "single", "random")]
        cells = [f"{row['mean']:,.1f} ± {row['deviation']:,.1f}" if row else "–" for row in rows]
        score, _, single, random = (row and row["mean"] for row in rows)
        lines.append(f"| {title} | {' | '.join(cells)} | {_normalised(score, single, random)} |")
    return "\n".join(lines)


def _normalised(score: float, single: float | None, random: float | None) -> str:
    if single is None or random is None or single <= random:
        return "–"
    return f"{(score - random) / (single - random):.2f}"


def make(store: Store, name: str, choice: RunChoice, *, folder: Path = ZOO, episodes: int | None = None) -> Path:
    """Writes NAME.reaper, NAME.json and NAME.md to a folder."""
    record, memory = choose_memory(store, choice)
    result = next(result for result in read_results(store) if result.record.name == record.name)
    if np.isnan(result.final).any():
        raise UserError(f"{record.name} is not finished: its last agent has not been evaluated on every task")
    pack = folder / f"{name}.reaper"
    print(export_weights(store.folder, pack, choice, half=True, overwrite=True), flush=True)
    size = pack.stat().st_size
    if size > MAX_BYTES:
        raise UserError(f"{pack} has {size:,} bytes, more than the {MAX_BYTES:,} that a pack may have")
    scores = measure_scores(load(pack), episodes or result.settings.evaluation.episodes)
    facts = {"sha256": sha256(pack), "bytes": size, **run_facts(store, result, memory), **score_facts(result, scores)}
    write_checksummed(folder / f"{name}.json", facts)
    write_card(name, folder)
    return pack


def write_card(name: str, folder: Path = ZOO) -> None:
    """Writes NAME.md from NAME.json and NAME.reaper."""
    entry = entries(folder)[name]
    atomic_write(folder / f"{name}.md", card(name, entry.facts, load(entry.pack).context.settings).encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("name", help="what comes after `pretrained:`")
    parser.add_argument("--condition", default="RePR")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--sequence")
    parser.add_argument("--episodes", type=int, help="per task (default: as many as in the run's evaluations)")
    parser.add_argument("--folder", type=Path, default=ZOO)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    choice = RunChoice(arguments.condition, arguments.seed, arguments.sequence)
    try:
        store = Store.open(arguments.store)
        pack = make(store, arguments.name, choice, folder=arguments.folder, episodes=arguments.episodes)
    except ReaperError as error:
        print(f"make_zoo: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{pack}: {pack.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

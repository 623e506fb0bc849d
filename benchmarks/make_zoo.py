"""Puts the long-term memory of a finished run into the zoo: a pack in half precision, its measured scores, its card.

    python benchmarks/make_zoo.py STORE NAME [--condition RePR] [--seed 0] [--games 30] [--folder src/reaper/zoo]

The scores are those of the pack itself, opened as a user opens it; beside them stand the run's own: the same agent
before rounding, one DQN a task, and random play.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reaper.agent import Agent, load
from reaper.errors import ReaperError, UserError
from reaper.generators import generator_for
from reaper.learning.evaluation.episodes import evaluate
from reaper.results.runs import RunResult, read_results
from reaper.storage.files import atomic_write, sha256, write_checksummed
from reaper.storage.find import RunChoice, choose_memory
from reaper.storage.pack import export_weights
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store
from reaper.tasks.sequence import find_task
from reaper.version import VERSION

LARGEST = 12 << 20  # bytes of a pack: it travels with the package
SHELF = Path(__file__).parent.parent / "src" / "reaper" / "zoo"


@dataclass(frozen=True)
class Provenance:
    """Everything a card tells of."""

    name: str
    result: RunResult
    header: StoreHeader
    pack: Path
    scores: dict[str, list[float]]  # task -> whole games, played with the pack


def measured(agent: Agent, games: int) -> dict[str, list[float]]:
    """Whole games of every task, as `evaluate` stages play them."""
    settings = agent.context.settings
    context = replace(agent.context, settings=replace(settings, evaluation=replace(settings.evaluation, games=games)))
    scores = {}
    for name in agent.tasks:
        row = evaluate(context, agent.network, find_task(name), 0)
        scores[name] = row["scores"]
        print(f"{name}: {np.mean(scores[name]):.2f} over {games} games", flush=True)
    return scores


def facts_of(making: Provenance) -> dict[str, Any]:
    """What `reaper zoo --json` prints, and tests hold the pack against."""
    result = making.result

    def moments(games: Any) -> dict[str, float]:
        return {"mean": round(float(np.mean(games)), 4), "deviation": round(float(np.std(games)), 4)}

    def known(games: np.ndarray) -> dict[str, dict[str, float]]:
        return {t: moments(g) for t, g in zip(result.tasks, games, strict=True) if not np.isnan(g).any()}

    return {
        "sha256": sha256(making.pack),
        "bytes": making.pack.stat().st_size,
        "condition": result.name,
        "sequence": result.sequence,
        "tasks": result.tasks,
        "titles": result.titles,
        "seed": result.seed,
        "fraction": making.header.fraction,
        "version": making.header.version,
        "command": f"{result.record.command} --out OUT",
        "games": len(next(iter(making.scores.values()))),
        "scores": {task: moments(games) for task, games in making.scores.items()},
        "before_rounding": known(result.final),
        "single": known(result.single),
        "random": known(result.random),
    }


def card_of(name: str, facts: dict[str, Any], result: RunResult, devices: list[str]) -> str:
    settings, frames, condition = result.settings, result.settings.observation, facts["condition"]
    first = _short(result.tasks[0])
    return f"""# {name}

One network that plays {len(facts["tasks"])} games, learnt one after another: {", ".join(result.titles)}.
It was made by {condition}, and holds the agent and what that remembers by, in half precision: {facts["bytes"]:,} bytes.

## Scores

Mean ± standard deviation of whole games with {settings.evaluation.epsilon:.0%} random actions. `share` is 0 for
random play and 1 for a DQN with the same budget trained on that game alone. The first column is this pack
({facts["games"]} games), the second the same agent before its weights were rounded.

{_score_table(facts)}

## How it was trained

```sh
{facts["command"]}
```

reaper {facts["version"]}, seed {facts["seed"]}, fraction of the budget {facts["fraction"]:g}, on {", ".join(devices)}:

- {settings.short_term.agent_steps:,} agent steps a game for its own DQN,
- {settings.long_term.agent_steps:,} agent steps a game for the long-term network,
- {generator_for(settings).steps:,} steps for each generator, where the condition has one.

`benchmarks/make_zoo.py` of reaper {VERSION} wrote the pack and this card.

## Use

```sh
reaper play --pretrained {name} --task {first} --video {first.lower()}.gif
reaper run {condition} --continue-from pretrained:{name} --tasks ANOTHER-TASK --out runs/further
```

## Limits

- One seed, and {result.titles[-1]} was learnt last: games learnt earlier are the ones that may have suffered.
- It plays these games from {frames.frame_stack} frames of {frames.frame_size} x {frames.frame_size} pixels, and no others; it was never
  tested with sticky actions or other variants of them.
- Rounded weights: as the start of further training it is not the same as the run it comes from.
- A frame is an agent step (four emulator frames on Atari). Compare with published numbers only at the same budget.
"""


def _score_table(facts: dict[str, Any]) -> str:
    lines = ["| game | this pack | before rounding | single | random | share |", "|---|---:|---:|---:|---:|---:|"]
    for task, title in zip(facts["tasks"], facts["titles"], strict=True):
        rows = [facts[part].get(task) for part in ("scores", "before_rounding", "single", "random")]
        cells = [f"{row['mean']:,.1f} ± {row['deviation']:,.1f}" if row else "–" for row in rows]
        lines.append(f"| {title} | {' | '.join(cells)} | {_share(*(row and row['mean'] for row in rows))} |")
    return "\n".join(lines)


def _share(score: float, _: float | None, single: float | None, random: float | None) -> str:
    if single is None or random is None or single <= random:
        return "–"
    return f"{(score - random) / (single - random):.2f}"


def _short(task: str) -> str:
    return task.removeprefix("ALE/").split("-v")[0]


def make(store: Store, name: str, choice: RunChoice, games: int | None, folder: Path) -> Path:
    record, digest = choose_memory(store, choice)
    result = next(result for result in read_results(store) if result.record.name == record.name)
    if np.isnan(result.final).any():
        raise UserError(f"{record.name} is not finished: its last agent has not been tested on every task")
    pack = folder / f"{name}.reaper"
    print(export_weights(store.folder, pack, choice, half=True, overwrite=True), flush=True)
    if pack.stat().st_size > LARGEST:
        raise UserError(f"{pack} has {pack.stat().st_size:,} bytes, more than the {LARGEST:,} that a pack may have")
    making = Provenance(
        name, result, store.header, pack, measured(load(pack), games or result.settings.evaluation.episodes)
    )
    facts = facts_of(making)
    write_checksummed(folder / f"{name}.json", facts)
    ran = store.stage(digest).provenance()
    atomic_write(folder / f"{name}.md", card_of(name, facts, result, [f"{ran.device} ({ran.processor})"]).encode())
    return pack


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("name", help="what comes after `pretrained:`")
    parser.add_argument("--condition", default="RePR")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--sequence")
    parser.add_argument("--games", type=int, help="whole games a task (default: as many as the run was tested with)")
    parser.add_argument("--folder", type=Path, default=SHELF)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    choice = RunChoice(arguments.condition, arguments.seed, arguments.sequence)
    try:
        pack = make(Store.open(arguments.store), arguments.name, choice, arguments.games, arguments.folder)
    except ReaperError as error:
        print(f"make_zoo: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{pack}: {pack.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Where training could not tell which weights were the best, and kept the last ones."""

from __future__ import annotations

from reaper.report.scores import SequenceScores
from reaper.results.runs import LastWeights, RunResult


def last_weights(scores: SequenceScores) -> list[str]:
    """One sentence per task and agent, in the order of the tasks."""
    seeds: dict[tuple[int, str], set[int]] = {}  # task and sentence -> seeds; conditions share their teachers
    for run in scores.runs:
        for found in run.last_weights:
            seeds.setdefault((scores.tasks.index(found.task), _sentence(run, found)), set()).add(run.seed)
    every = {run.seed for run in scores.runs}
    return [
        f"{scores.titles[task]}{'' if here == every else _listed(here)}: {sentence}"
        for (task, sentence), here in sorted(seeds.items())
    ]


def _sentence(run: RunResult, found: LastWeights) -> str:
    agent = f"the long-term agent of {run.name}" if found.long_term else "the DQN that learnt it"
    episodes = run.settings.training.best_episodes
    why = f"had {episodes:,} finished episodes" if found.by_score else "was complete"
    return f"no window of training {why}, so {agent} has its last weights and not its best."


def _listed(seeds: set[int]) -> str:
    return f" (seed {', '.join(map(str, sorted(seeds)))})"

"""A folder as model hubs expect it: a README with YAML metadata, config, weights, results and, if possible, a video."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reaper.agent import Agent
from reaper.errors import UserError
from reaper.report.videos import encoder, write_video
from reaper.storage.files import atomic_dir
from reaper.storage.model_folder import write_model
from reaper.tasks.sequence import find_task
from reaper.version import VERSION

Scores = Mapping[str, np.ndarray]  # task -> the return of each evaluated episode


def write_card(folder: Path, agent: Agent, *, spec: Mapping[str, Any], scores: Scores, command: str) -> None:
    """`spec` is that of the memory's stage; `scores` may lack tasks, whose results are then left out."""
    with atomic_dir(folder) as part:
        write_model(part, agent.memory, spec, version=VERSION)
        (part / "results.json").write_text(json.dumps(_results(agent, scores), indent=1) + "\n")
        text = _readme(folder.name, agent, scores, command=command, video=_record(part, agent))
        (part / "README.md").write_text(text)


def _record(folder: Path, agent: Agent) -> str | None:
    """A video of the last task; None where this machine cannot render it."""
    task, name = find_task(agent.tasks[-1]), f"replay.{'mp4' if encoder() else 'gif'}"
    try:
        write_video(folder / name, agent.play(task.name, human_view=True), task.title)
    except UserError:
        (folder / name).unlink(missing_ok=True)
        return None
    return name


def _results(agent: Agent, scores: Scores) -> list[dict[str, Any]]:
    return [
        {
            "task": task,
            "mean_reward": float(scores[task].mean()),
            "std_reward": float(scores[task].std()),
            "episodes": len(scores[task]),
        }
        for task in agent.tasks
        if task in scores
    ]


def _readme(name: str, agent: Agent, scores: Scores, *, command: str, video: str | None) -> str:
    titles = [find_task(task).title for task in agent.tasks]
    made = f"\n## Training\n\n```sh\n{command}\n```\n" if command else ""
    return f"""---
{_metadata(name, agent, scores)}---

# {name}

One network that knows {len(agent.tasks)} tasks, learnt one after another: {", ".join(titles)}.
It was trained with reaper {VERSION}.

{_table(agent, scores)}

## Use

```python
import reaper

agent = reaper.load("PATH/TO/THIS/FOLDER")
env = agent.make_env("{agent.tasks[0]}")
observation, _ = env.reset()
action, _ = agent.for_task("{agent.tasks[0]}").predict(observation)
```

{f"`{video}` shows {titles[-1]}. " if video else ""}The folder holds the agent without what its retention method keeps
of earlier tasks: it can act, and teach (`reaper consolidate`), but not learn a further task without forgetting.
{made}"""


def _table(agent: Agent, scores: Scores) -> str:
    if not scores:
        return "The agent came without the evaluations of its run, so there are no scores here."
    names = [(find_task(task).title, task) for task in agent.tasks]
    rows = [f"| {title} | {_value(scores[task]) if task in scores else '–'} |" for title, task in names]
    episodes, epsilon = len(next(iter(scores.values()))), agent.context.settings.evaluation.epsilon
    caption = f"Mean +/- standard deviation over {episodes} whole episodes, with {epsilon:.0%} random actions."
    return "\n".join(["| task | mean return |", "|---|---:|", *rows, "", caption])


def _value(scores: np.ndarray) -> str:
    return f"{scores.mean():.2f} +/- {scores.std():.2f}"


def _metadata(name: str, agent: Agent, scores: Scores) -> str:
    """YAML, written by hand: JSON strings are YAML strings, too."""
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "continual-learning", "reaper", *agent.tasks]
    lines = ["library_name: reaper", "tags:", *(f"- {json.dumps(tag)}" for tag in tags)]
    if scores:  # hubs refuse an index without results
        lines += ["model-index:", f"- name: {json.dumps(name)}", "  results:"]
    for task in agent.tasks:
        if task in scores:
            lines += [
                "  - task:",
                "      type: reinforcement-learning",
                "      name: reinforcement-learning",
                "    dataset:",
                f"      name: {json.dumps(task)}",
                f"      type: {json.dumps(task)}",
                "    metrics:",
                "    - type: mean_reward",
                "      name: mean_reward",
                f"      value: {json.dumps(_value(scores[task]))}",
                "      verified: false",
            ]
    return "\n".join(lines) + "\n"

"""`reaper play` and `reaper zoo`: trained agents."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from reaper.agent import load
from reaper.cli.episode_progress import show_episode
from reaper.cli.tables import print_rows
from reaper.errors import UserError
from reaper.report.videos import check_video_file, write_video
from reaper.tasks.sequence import find_task, match_task
from reaper.zoo import entries, pretrained


def play(arguments: argparse.Namespace, console: Console) -> None:
    """Plays episodes and prints their returns; the first may become a video."""
    if arguments.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {arguments.episodes}")
    if (arguments.path is None) == (arguments.pretrained is None):
        raise UserError("name the agent: the PATH of a run or memory, or --pretrained NAME (see `reaper zoo`)")
    if arguments.video is not None:
        check_video_file(arguments.video)
    agent = load(
        f"pretrained:{arguments.pretrained}" if arguments.path is None else arguments.path,
        condition=arguments.condition,
        seed=arguments.seed,
        sequence=arguments.sequence,
        after_task=arguments.after_task,
    )
    task = find_task(match_task(agent.tasks, arguments.task))
    for number in range(arguments.episodes):
        video: Path | None = arguments.video if number == 0 else None  # of the first episode only
        with show_episode(f"{task.title}, episode {number + 1} of {arguments.episodes}") as progress:
            episode = agent.play(task.name, seed=number, human_view=video is not None)
            if video is not None:
                watched = progress.watch(episode, then=f"writing {video}")
                score = write_video(video, watched, task.title)
            else:
                *_, (_, score) = progress.watch(episode)
        if video is not None:
            print(f"video: {video}")
        print(f"{task.title}, episode {number + 1}: {score:g}", flush=True)


def zoo(arguments: argparse.Namespace, console: Console) -> None:
    """Lists the agents that come with the package, or shows the card of one."""
    if arguments.name and not arguments.json:
        print(pretrained(arguments.name).card, end="")
        return
    chosen = [pretrained(arguments.name)] if arguments.name else list(entries().values())
    if arguments.json:
        print(json.dumps([{"name": entry.name, **entry.facts} for entry in chosen], indent=1))
        return
    rows = [
        {
            "name": entry.name,
            "condition": entry.facts["condition"],
            "MiB": round(entry.facts["bytes"] / 2**20, 2),
            "mean scores": ", ".join(
                f"{title} {entry.facts['scores'][task]['mean']:,.1f}"
                for title, task in zip(entry.facts["titles"], entry.facts["tasks"], strict=True)
            ),
        }
        for entry in chosen
    ]
    print_rows(rows, ["name", "condition", "MiB", "mean scores"], console)
    console.print("`reaper zoo NAME` shows a card; `reaper play --pretrained NAME --task TASK` plays episodes")

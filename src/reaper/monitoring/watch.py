"""`reaper watch`: a folder's runs on the screen, once or until all is done."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reaper.monitoring.heartbeat import SECONDS_BETWEEN_BEATS
from reaper.monitoring.status import Look, RunLook, StageLook, Watcher

COLOURS = {"running": "green", "silent": "yellow", "lost": "yellow", "stopped": "yellow", "failed": "red"}
BUSY_AFTER = 30.0  # seconds without progress before it is worth a word


def plain(text: object) -> str:
    """What comes from a file may hold anything; a terminal gets what can be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def duration(seconds: float) -> str:
    minutes = int(seconds) // 60
    if minutes < 1:
        return f"{int(seconds)} s"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes < 48 * 60 else f"{minutes // 1440} days"


def frame(look: Look, out: Path) -> RenderableType:
    """Everything there is to see, as one picture."""
    parts: list[RenderableType] = [Text(_headline(look, out), style="bold")]
    if not look.runs and not look.problems:
        parts.append(Text("no run has been started in it yet"))
    shown = [stage for stage in look.stages if stage.state not in ("done", "waiting")]
    if shown:
        parts.append(_stage_table(shown))
        parts += [Text(line, style="dim") for stage in shown if (line := _reason(stage))]
    if look.runs:
        parts.append(_run_table(look.runs))
    parts += [Text(f"damaged: {plain(problem)}", style="red") for problem in look.problems]
    return Group(*parts)


def _headline(look: Look, out: Path) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in look.counts.items() if count)
    text = f"{out}: {counts or 'empty'}"
    if look.finished:
        return f"{text}; all is done"
    if look.seconds_left is not None:
        text += f"; {'at least' if look.at_least else 'about'} {duration(look.seconds_left)} left"
    return text


def _stage_table(stages: list[StageLook]) -> Table:
    table = Table("stage", "state", "phase", "", "rate", "left", "score", box=None, header_style="dim", pad_edge=False)
    for stage in stages:
        share = f"{stage.done / stage.total:.0%}" if stage.total and stage.done is not None else ""
        alive = stage.state == "running"
        rate = f"{stage.per_second:,.0f} {plain(stage.unit)}/s" if alive and stage.per_second else ""
        left = duration(stage.seconds_left) if alive and stage.seconds_left is not None else ""
        score = "" if stage.score is None else f"{stage.score:.1f}"
        state = Text(_state(stage), style=COLOURS.get(stage.state, ""))
        cells = (plain(stage.title), state, plain(stage.phase or ""), share, rate, left, score)
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    return table


def _reason(stage: StageLook) -> str:
    """Why it is not running, or what went wrong before."""
    if stage.state in ("failed", "lost") and stage.error:
        return f"{plain(stage.title)}: {plain(stage.error)}"
    return f"{plain(stage.title)} has failed before: {plain(stage.earlier_error)}" if stage.earlier_error else ""


def _state(stage: StageLook) -> str:
    if stage.state == "silent":
        return f"silent for {duration(stage.silent_seconds or 0)}"
    quiet = stage.seconds_since_progress or 0.0
    if stage.state == "running" and quiet > BUSY_AFTER:
        return f"running, no progress for {duration(quiet)}"
    return stage.state


def _run_table(runs: list[RunLook]) -> Table:
    table = Table("run", "stages", "learnt", "mean scores", box=None, header_style="dim", pad_edge=False)
    for run in runs:
        scores = ", ".join(f"{plain(task)} {score:.1f}" for task, score in run.scores.items())
        after = f" (after {plain(run.scored_after)})" if run.scored_after and scores else ""
        cells = (plain(run.name), f"{run.stages_done}/{run.stages}", f"{run.learnt}/{len(run.tasks)}", scores + after)
        table.add_row(*map(Text, cells))
    return table


def as_json(look: Look) -> dict[str, Any]:
    """The same for machines; `state` of a stage is one of looking.STATES."""
    stages = [{k: v for k, v in dataclasses.asdict(stage).items() if k != "step"} for stage in look.stages]
    return {
        "finished": look.finished,
        "counts": look.counts,
        "seconds_left": look.seconds_left,
        "seconds_left_is_least": look.at_least,
        "runs": [dataclasses.asdict(run) for run in look.runs],
        "stages": stages,
        "problems": look.problems,
    }


def look_twice(watcher: Watcher) -> Look:
    """One look, and more where the first cannot tell whether a stage is alive."""
    look, end = watcher.look(), time.monotonic() + 3 * SECONDS_BETWEEN_BEATS
    while look.unsure and time.monotonic() < end:
        time.sleep(0.5)
        look = watcher.look()
    return look


def watch(out: Path, console: Console, once: bool, json_: bool) -> None:
    """Shows the folder once, or, in a terminal, until all is done or the user has seen enough."""
    watcher = Watcher(out)
    if json_:
        print(json.dumps(as_json(look_twice(watcher)), indent=1))
    elif once or not console.is_terminal:
        console.print(frame(look_twice(watcher), out))
    else:
        _follow(watcher, console, out)


def _follow(watcher: Watcher, console: Console, out: Path) -> None:
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                look = watcher.look()
                live.update(frame(look, out), refresh=True)
                if look.finished:
                    return
                time.sleep(SECONDS_BETWEEN_BEATS)
    except KeyboardInterrupt:
        return

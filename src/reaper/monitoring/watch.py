"""`reaper watch`: the status of a folder's runs, once or until all runs are finished."""

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
from reaper.monitoring.live import FAILED, LOST, RUNNING, STOPPED
from reaper.monitoring.status import DONE, SILENT, WAITING, FolderStatus, RunStatus, StageStatus, StatusReader

COLOURS = {RUNNING: "green", SILENT: "yellow", LOST: "yellow", STOPPED: "yellow", FAILED: "red"}
NO_PROGRESS_AFTER = 30.0  # seconds without progress before they are shown


def printable(text: object) -> str:
    """Replaces control characters: a file may hold anything, and a terminal would act on it."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def duration(seconds: float) -> str:
    minutes = int(seconds) // 60
    if minutes < 1:
        return f"{int(seconds)} s"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes < 48 * 60 else f"{minutes // 1440} days"


def render(status: FolderStatus, out: Path) -> RenderableType:
    """The whole status: a headline, unfinished stages, runs and problems."""
    parts: list[RenderableType] = [Text(_headline(status, out), style="bold")]
    if not status.runs and not status.problems:
        parts.append(Text("no run has been started in it yet"))
    shown = [stage for stage in status.stages if stage.state not in (DONE, WAITING)]
    if shown:
        parts.append(_stage_table(shown))
        parts += [Text(line, style="dim") for stage in shown if (line := _reason(stage))]
    if status.runs:
        parts.append(_run_table(status.runs))
    parts += [Text(f"damaged: {printable(problem)}", style="red") for problem in status.problems]
    return Group(*parts)


def _headline(status: FolderStatus, out: Path) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in status.counts.items() if count)
    text = f"{out}: {counts or 'empty'}"
    if status.finished:
        return f"{text}; finished"
    if status.seconds_left is not None:
        text += f"; {'at least' if status.at_least else 'about'} {duration(status.seconds_left)} left"
    return text


def _stage_table(stages: list[StageStatus]) -> Table:
    columns = ("stage", "state", "phase", "", "speed", "left", "score")
    table = Table(*columns, box=None, header_style="dim", pad_edge=False)
    for stage in stages:
        live, running = stage.live, stage.state == RUNNING
        share = f"{live.done / live.total:.0%}" if live.total and live.done is not None else ""
        speed = f"{live.per_second:,.0f} {printable(live.unit)}/s" if running and live.per_second else ""
        left = duration(live.seconds_left) if running and live.seconds_left is not None else ""
        score = "" if live.score is None else f"{live.score:.1f}"
        state = Text(_state(stage), style=COLOURS.get(stage.state, ""))
        cells = (printable(stage.title), state, printable(live.phase or ""), share, speed, left, score)
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    return table


def _reason(stage: StageStatus) -> str:
    """Why the stage does not run, or why an earlier attempt failed."""
    title, live = printable(stage.title), stage.live
    if stage.state in (FAILED, LOST) and live.error:
        return f"{title}: {printable(live.error)}"
    return f"{title} has failed before: {printable(live.earlier_error)}" if live.earlier_error else ""


def _state(stage: StageStatus) -> str:
    if stage.state == SILENT:
        return f"silent for {duration(stage.silent_seconds or 0)}"
    seconds = stage.live.seconds_since_progress or 0.0
    if stage.state == RUNNING and seconds > NO_PROGRESS_AFTER:
        return f"running, no progress for {duration(seconds)}"
    return stage.state


def _run_table(runs: list[RunStatus]) -> Table:
    table = Table("run", "stages", "tasks learnt", "mean scores", box=None, header_style="dim", pad_edge=False)
    for run in runs:
        scores = ", ".join(f"{printable(task)} {score:.1f}" for task, score in run.scores.items())
        after = f" (after {printable(run.scored_after)})" if run.scored_after and scores else ""
        progress = (f"{run.stages_done}/{run.stages}", f"{run.learnt}/{len(run.tasks)}")
        table.add_row(*map(Text, (printable(run.name), *progress, scores + after)))
    return table


def as_json(status: FolderStatus) -> dict[str, Any]:
    """The same as one JSON object; the `state` of a stage is one of `status.STATES`."""
    return {
        "finished": status.finished,
        "counts": status.counts,
        "seconds_left": status.seconds_left,
        "seconds_left_is_least": status.at_least,
        "runs": [dataclasses.asdict(run) for run in status.runs],
        "stages": [stage.to_json() for stage in status.stages],
        "problems": status.problems,
    }


def read_until_sure(reader: StatusReader) -> FolderStatus:
    """Reads once, and again for a few seconds if the first read cannot tell whether a stage is alive."""
    status, end = reader.read(), time.monotonic() + 3 * SECONDS_BETWEEN_BEATS
    while status.unsure and time.monotonic() < end:
        time.sleep(0.5)
        status = reader.read()
    return status


def watch(out: Path, console: Console, *, once: bool, json_: bool) -> None:
    """Shows the status once, or, in a terminal, until all runs are finished or the user presses Ctrl-C."""
    reader = StatusReader(out)
    if json_:
        print(json.dumps(as_json(read_until_sure(reader)), indent=1))
    elif once or not console.is_terminal:
        console.print(render(read_until_sure(reader), out))
    else:
        _follow(reader, console, out)


def _follow(reader: StatusReader, console: Console, out: Path) -> None:
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                status = reader.read()
                live.update(render(status, out), refresh=True)
                if status.finished:
                    return
                time.sleep(SECONDS_BETWEEN_BEATS)
    except KeyboardInterrupt:
        return

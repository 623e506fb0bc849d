"""What an experiment will do and what it will cost, said before it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reaper.bench.costs import Forecast
from reaper.errors import UserError
from reaper.report.provenance import duration
from reaper.storage.store import Store
from reaper.study.experiments import EXPERIMENTS, TooFewTasks, plan_experiment
from reaper.study.plan import Plan

Row = dict[str, Any]


def open_if_there(out: Path, study: Plan) -> tuple[Store | None, str]:
    """The store a study would go on in; None, and why, where nothing in it counts. A broken one is an error."""
    if not (out / "reaper.json").exists():
        return None, ""
    store = Store.open(out)
    try:
        store.compare(study.common)
    except UserError as error:
        return None, str(error)
    store.check_records()
    return store, ""


def costs(out: Path, options: dict[str, Any], as_json: bool, console: Console) -> None:
    """A row for each experiment: what is left to run, and how long that would take here."""
    plans: dict[str, Plan | TooFewTasks] = {}
    for name in EXPERIMENTS:
        try:
            plans[name] = plan_experiment(name, **options)
        except TooFewTasks as error:
            plans[name] = error
    studies = [study for study in plans.values() if isinstance(study, Plan)]
    store, why = open_if_there(out, studies[0]) if studies else (None, "")
    forecast = Forecast(store)
    rows = [_cost_row(name, study, forecast) for name, study in plans.items()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    console.print(_cost_table(rows), highlight=False)
    for line in [*([why] if why else []), *_notes(rows)]:
        console.print(escape(line), highlight=False, soft_wrap=True)


def _notes(rows: list[Row]) -> list[str]:
    known = [row for row in rows if "left" in row]
    probed, learnt = (sum(row[key] for row in known) for key in ("probed", "learnt"))
    notes = [row["note"] for row in rows if "note" in row]
    if learnt or probed:
        notes.append(
            f"Time: {learnt} stages from finished ones like them in --out, {probed} from a short probe just now."
        )
    notes = [*(f"{row['name']}: {row['about']} ({row['shows']})" for row in rows), "", *notes]
    return [*notes, "Experiments in one --out share stages: what one has run is done for the next."]


def _cost_row(name: str, study: Plan | TooFewTasks, forecast: Forecast) -> Row:
    row: Row = {"name": name, "shows": EXPERIMENTS[name].shows, "about": EXPERIMENTS[name].about}
    if isinstance(study, TooFewTasks):
        return {**row, "note": str(study)}
    cost = forecast.cost(study.stages, study.resources)
    record = study.experiments[0]
    return {
        **row,
        "tasks": record["sequence"],
        "conditions": len({chain.condition.name for chain in study.chains}),
        "stages": cost.stages,
        "done": cost.done,
        "left": cost.stages - cost.done,
        "agent_steps": cost.agent_steps,
        "gan_steps": cost.gan_steps,
        "hours": round(cost.hours, 4),
        "learnt": cost.learnt,
        "probed": cost.probed,
        "workers": study.resources.workers,
        "device": study.resources.device,
        "fraction": study.common["fraction"],
    }


def _cost_table(rows: list[Row]) -> Table:
    fraction = next((row["fraction"] for row in rows if "fraction" in row), 1)
    workers = next((row["workers"] for row in rows if "workers" in row), 1)
    title = f"at {fraction:g} of the budget, {workers} worker{'s' if workers != 1 else ''}"
    table = Table(title=title, box=None, header_style="bold", title_justify="left")
    for name in ("experiment", "tasks"):
        table.add_column(name, no_wrap=True)
    for name in ("stages", "done", "frames left", "GAN steps left", "time left"):
        table.add_column(name, justify="right")
    for row in rows:
        if "left" in row:
            numbers = [f"{row[key]:,}" for key in ("stages", "done", "agent_steps", "gan_steps")]
            left = duration(row["hours"] * 3600) if row["left"] else "none"
            table.add_row(row["name"], escape(row["tasks"]), *numbers, left)
        else:
            table.add_row(row["name"], "too few", *["–"] * 5)
    return table


def graph(study: Plan, out: Path, as_json: bool, console: Console) -> None:
    """Every stage, parents first: what it is, what it is made from, and whether it is there already."""
    store, why = open_if_there(out, study)
    stages = study.stages
    numbers = {stage.digest: place + 1 for place, stage in enumerate(stages)}
    done = {stage.digest for stage in stages if store and store.has(stage.digest)}
    if as_json:
        rows = [
            {
                "digest": stage.digest,
                "kind": stage.kind,
                "title": stage.title,
                "parents": dict(stage.parents),
                "done": stage.digest in done,
            }
            for stage in stages
        ]
        print(json.dumps(rows, indent=1))
        return
    table = Table("", "stage", "from", "", box=None, header_style="bold")
    table.columns[0].justify = "right"
    for stage in stages:
        parents = ", ".join(str(numbers[parent]) for parent in stage.parents.values())
        state = "done" if stage.digest in done else "to run"
        table.add_row(str(numbers[stage.digest]), escape(stage.title), parents, state)
    console.print(table, highlight=False)
    cost = Forecast(store).cost(stages, study.resources)
    left = cost.stages - cost.done
    told = f"{cost.stages} stages, {cost.done} done, {left} to run"
    told += f": about {duration(cost.hours * 3600)}, predicted from {cost.source}" if left else ""
    console.print("\n".join(map(escape, [*([why] if why else []), told])), highlight=False)

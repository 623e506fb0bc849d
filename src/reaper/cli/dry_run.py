"""`reaper experiment --list` and `--dry-run`: what studies would run and cost, without running them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reaper.bench.costs import CostEstimator
from reaper.config.overrides import differences
from reaper.engines.execute import check_resources, resolve_engine
from reaper.errors import UserError
from reaper.report.provenance import duration
from reaper.storage.store import Store
from reaper.study.experiments import EXPERIMENTS, TooFewTasks, plan_experiment
from reaper.study.options import StudyOptions
from reaper.study.plan import Plan
from reaper.study.reuse import choose_sources

Row = dict[str, Any]


def open_existing(out: Path, study: Plan) -> tuple[Store | None, str]:
    """The store that the study would continue, or None and the reason if its settings differ."""
    if not (out / "reaper.json").exists():
        return None, ""
    store = Store.open(out)
    try:
        store.compare(study.header)
    except UserError as error:
        return None, str(error)
    store.check_records()
    return store, ""


def reusable_stages(study: Plan, options: StudyOptions, store: Store | None) -> dict[str, Path]:
    """Digest -> the source of --reuse that it would be taken from."""
    return choose_sources(study.stages, options.reuse, store.stages() if store else ())


# -- reaper experiment --list


def print_costs(options: StudyOptions, as_json: bool, console: Console) -> None:
    """One row per experiment: the work that is left, and how long it would take on this machine."""
    plans: dict[str, Plan | TooFewTasks] = {}
    for name in EXPERIMENTS:
        try:
            plans[name] = plan_experiment(name, options)
        except TooFewTasks as error:
            plans[name] = error
    studies = [study for study in plans.values() if isinstance(study, Plan)]
    store, reason = open_existing(options.out, studies[0]) if studies else (None, "")
    reusable = {digest for study in studies for digest in reusable_stages(study, options, store)}
    estimator = CostEstimator(store, reusable)
    rows = [_cost_row(name, study, options, estimator) for name, study in plans.items()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    console.print(_cost_table(rows), highlight=False)
    for line in [*([reason] if reason else []), *_notes(rows)]:
        console.print(escape(line), highlight=False)


def _cost_row(name: str, study: Plan | TooFewTasks, options: StudyOptions, estimator: CostEstimator) -> Row:
    row: Row = {"name": name, "shows": EXPERIMENTS[name].shows, "about": EXPERIMENTS[name].about}
    if isinstance(study, TooFewTasks):
        return {**row, "note": str(study)}
    _, resources = resolve_engine(study, options)
    cost = estimator.cost(study.stages, resources)
    return {
        **row,
        "tasks": study.config.sequence.name,
        "conditions": len({chain.condition.name for chain in study.chains}),
        "stages": cost.stages,
        "done": cost.done,
        "left": cost.stages - cost.done,
        "agent_steps": cost.agent_steps,
        "generator_steps": cost.generator_steps,
        "hours": round(cost.hours, 4),
        "from_finished": cost.from_finished,
        "from_calibration": cost.from_calibration,
        "workers": resources.workers,
        "device": resources.device,
        "fraction": study.config.fraction,
    }


def _cost_table(rows: list[Row]) -> Table:
    fraction = next((row["fraction"] for row in rows if "fraction" in row), 1)
    workers = next((row["workers"] for row in rows if "workers" in row), 1)
    title = f"at {fraction:g} of the budget, {workers} worker{'s' if workers != 1 else ''}"
    table = Table(title=title, box=None, header_style="bold", title_justify="left")
    table.add_column("experiment", no_wrap=True)
    table.add_column("tasks")
    for name in ("stages", "done", "agent steps left", "generator steps left", "time left"):
        table.add_column(name, justify="right")
    for row in rows:
        if "left" in row:
            numbers = [f"{row[key]:,}" for key in ("stages", "done", "agent_steps", "generator_steps")]
            left = duration(row["hours"] * 3600) if row["left"] else "none"
            table.add_row(row["name"], escape(row["tasks"].replace(",", ", ")), *numbers, left)
        else:
            table.add_row(row["name"], "too few", *["–"] * 5)
    return table


def _notes(rows: list[Row]) -> list[str]:
    known = [row for row in rows if "left" in row]
    finished, calibrated = (sum(row[key] for row in known) for key in ("from_finished", "from_calibration"))
    notes = [row["note"] for row in rows if "note" in row]
    if finished or calibrated:
        notes.append(
            f"Times: {finished} stages from similar finished ones in --out, {calibrated} from a short calibration."
        )
    about = [f"{row['name']}: {row['about']} ({row['shows']})" for row in rows]
    return [*about, "", *notes, "Experiments in one --out share stages: each is run once."]


# -- reaper run and reaper experiment NAME, with --dry-run


def print_stages(study: Plan, options: StudyOptions, as_json: bool, console: Console) -> None:
    """Every stage, parents first: its title, its parents, and whether it is finished, here or where it is reused."""
    store, reason = open_existing(options.out, study)
    stages, reusable = study.stages, reusable_stages(study, options, store)
    done = {stage.digest for stage in stages if store and store.has(stage.digest)}
    if as_json:
        rows = [
            {
                "digest": stage.digest,
                "kind": stage.kind,
                "title": stage.title,
                "parents": dict(stage.parents),
                "settings": stage.spec["settings"],
                "done": stage.digest in done,
                "reused_from": reusable.get(stage.digest),
            }
            for stage in stages
        ]
        print(json.dumps(rows, indent=1, default=str))
        return
    states = {digest: f"in {source.name}" for digest, source in reusable.items()} | dict.fromkeys(done, "done")
    console.print(_stage_table(study, states), highlight=False)
    if (settings := _settings_table(study)).row_count:
        console.print(settings, highlight=False)
    for notice in study.notices:
        console.print(f"note: {escape(notice)}", highlight=False)
    summary = _summary(study, options, store, reusable)
    console.print("\n".join(map(escape, [*([reason] if reason else []), summary])), highlight=False)


def print_prediction(study: Plan, options: StudyOptions, console: Console) -> None:
    """What is left to run of a study that is about to start, and how long it will take."""
    check_resources(study, options)  # now, since a prediction may take a minute
    store, _ = open_existing(options.out, study)
    console.print(escape(f"preset {study.config.preset}: {_summary(study, options, store)}"), highlight=False)


def _summary(study: Plan, options: StudyOptions, store: Store | None, reusable: Collection[str] = ()) -> str:
    cost = CostEstimator(store, reusable).cost(study.stages, resolve_engine(study, options)[1])
    left = cost.stages - cost.done
    counts = f"{cost.stages} stages, {cost.done} done, {left} to run"
    return f"{counts}: about {duration(cost.hours * 3600)}, predicted from {cost.source}" if left else counts


def _stage_table(study: Plan, states: Mapping[str, str]) -> Table:
    """`states`: digest -> what is said of a stage that need not be run."""
    numbers = {stage.digest: place + 1 for place, stage in enumerate(study.stages)}
    table = Table("", "stage", "from", "", box=None, header_style="bold")
    table.columns[0].justify = "right"
    for stage in study.stages:
        parents = ", ".join(str(numbers[parent]) for parent in stage.parents.values())
        state = states.get(stage.digest, "to run")
        table.add_row(str(numbers[stage.digest]), escape(stage.title), parents, escape(state))
    return table


def _settings_table(study: Plan) -> Table:
    """The values that the user gave, and those by which single conditions differ from the rest."""
    table = Table("setting", "value", "in", box=None, header_style="bold", title_justify="left")
    table.title = "settings given, and settings of single conditions"
    for name, value in study.config.user_values.items():
        table.add_row(f"--{name}", escape(str(value)), "every condition, as given")
    rows: dict[tuple[str, str], list[str]] = {}
    for chain in study.chains:
        for name, (value, _) in differences(chain.settings, study.config.settings).items():
            rows.setdefault((f"--{name}", str(value)), []).append(chain.condition.name)
    for (name, value), conditions in rows.items():
        table.add_row(name, escape(value), escape(", ".join(dict.fromkeys(conditions))))
    return table

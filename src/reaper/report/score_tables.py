"""The tables of one sequence: scores, metrics and score matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reaper.paper.results import HUMAN, STORED_ITEMS
from reaper.report.paper_comparison import paper_table
from reaper.report.scores import ConditionScores, SequenceScores, count_of_tasks
from reaper.report.text_table import UNKNOWN, TextTable, decimals_for, mean_and_deviation, memory_unit, number, score
from reaper.results.continual_world import CONTINUAL_WORLD, WINDOWS
from reaper.results.metrics import METRICS, bootstrap_interval

UNDEFINED = "A dash under a task: undefined, because the single-task DQN is no better than random play."


def score_table(scores: SequenceScores) -> TextTable:
    """Mean and standard deviation of the final agents' episodes, memory, normalised average and number of seeds."""
    rows = [(condition.name, condition.episodes) for condition in scores.conditions]
    rows += [(reference.label, reference.episodes) for reference in scores.references]
    columns: dict[str, list[str]] = {"condition": [label for label, _ in rows]}
    human = any(task in HUMAN for task in scores.tasks)
    columns["condition"] += ["human"] if human else []
    for j, (task, title) in enumerate(zip(scores.tasks, scores.titles, strict=True)):
        cells = [mean_and_deviation(episodes[j]) for _, episodes in rows]
        decimals = decimals_for(mean for mean, _ in cells)
        columns[title] = [score(*cell, decimals) for cell in cells]
        columns[title] += [number(HUMAN.get(task, math.nan), decimals)] if human else []
    padding = [UNKNOWN] * (len(columns["condition"]) - len(scores.conditions))
    columns.update({name: [*cells, *padding] for name, cells in _condition_columns(scores).items()})
    notes = ["Mean score of the final agent and standard deviation over all episodes of all seeds."]
    notes += ["Human: the level of an expert, as the paper quotes it."] if human else []
    if scores.conditions:
        notes.append(
            "The average is of normalised scores: 0 is random play, 1 is a DQN trained on that task alone. Tasks: how "
            "many of them it counts."
        )
    if any(not math.isnan(condition.compressed_bytes) for condition in scores.conditions):
        notes.append("Compressed: the memory if its raw items were compressed without loss, from a sample of them.")
    if stored := [_stored_items(row) for row in scores.conditions if not math.isnan(row.stored_items)]:
        notes.append(f"Real items in the final memory: {', '.join(stored)}.")
    return TextTable("Scores", tuple(columns), list(zip(*columns.values(), strict=True)), notes)


def _condition_columns(scores: SequenceScores) -> dict[str, list[str]]:
    """Columns that references have no values for."""
    if not scores.conditions:
        return {}
    sizes = [condition.memory_bytes for condition in scores.conditions]
    compressed = [condition.compressed_bytes for condition in scores.conditions]
    unit, size, decimals = memory_unit(sizes)
    shown = {f"memory ({unit})": sizes, f"compressed ({unit})": compressed}
    return {
        **{
            name: [number(value / size, decimals) for value in values]
            for name, values in shown.items()
            if not all(map(math.isnan, values)) or values is sizes
        },
        "average": [_mean(condition.metric("average")) for condition in scores.conditions],
        "tasks": [condition.counted for condition in scores.conditions],
        "seeds": [_seeds(condition) for condition in scores.conditions],
    }


def _stored_items(condition: ConditionScores) -> str:
    paper = STORED_ITEMS.get(condition.name) if condition.published else None
    return f"{condition.name} {condition.stored_items:,.0f}" + (f" (paper {paper:,})" if paper else "")


def _seeds(condition: ConditionScores) -> str:
    done, planned = len(condition.complete), len(condition.runs)
    return str(done) if done == planned else f"{done} of {planned}"


def metric_table(scores: SequenceScores) -> TextTable:
    """Normalised scores, and one column per registered metric."""
    several_seeds = any(len(condition.metric("average")) > 1 for condition in scores.conditions)
    rows = [
        (
            condition.name,
            *map(number, condition.normalised),
            *(_with_interval(condition.metric(name)) for name in METRICS),
            condition.counted,
        )
        for condition in scores.conditions
    ]
    notes = [
        "Normalised: 0 is random play, 1 is a DQN trained on that task alone. Means over seeds. Tasks: how many of "
        "them the metrics count."
    ]
    notes += ["In brackets: 95 % bootstrap intervals over seeds."] if several_seeds else []
    notes += [UNDEFINED] if scores.undefined else []
    header = ("condition", *scores.titles, *METRICS, "tasks")
    return TextTable("Learning and forgetting", header, rows, notes, name="forgetting")


def continual_world_table(scores: SequenceScores) -> TextTable:
    """Continual World's metrics, each defined below the table."""
    rows = [
        (row.name, *(_with_interval(row.run_metric(m)) for m in CONTINUAL_WORLD), *_counts(row))
        for row in scores.conditions
    ]
    notes = [f"{m.name.capitalize()}: {m.definition}; {m.formula}." for m in CONTINUAL_WORLD.values()]
    header = ("condition", *CONTINUAL_WORLD, "tasks", "tasks (transfer)")
    return TextTable("Continual World's metrics", header, rows, [*notes, WINDOWS], name="continual-world")


def _counts(condition: ConditionScores) -> tuple[str, str]:
    """How many tasks performance and forgetting count, and how many forward transfer does."""
    transfer = [CONTINUAL_WORLD["forward transfer"].counted(run) for run in condition.complete]
    return condition.counted, count_of_tasks(transfer, len(condition.episodes))


def _mean(values: Sequence[float]) -> str:
    return number(float(np.mean(values))) if len(values) else UNKNOWN


def _with_interval(values: Sequence[float]) -> str:
    """With one seed there is nothing to resample, so no interval is shown."""
    if len(values) < 2:
        return _mean(values)
    return f"{_mean(values)} [{', '.join(map(number, bootstrap_interval(values)))}]"


def matrix_table(condition: ConditionScores, titles: Sequence[str]) -> TextTable:
    """The whole score matrix: after each task, on each task, raw and normalised."""
    decimals = [decimals_for(column) for column in condition.raw_matrix.T]
    rows = [
        (
            f"after {title}",
            *(
                UNKNOWN if math.isnan(raw) else f"{number(raw, places)} ({number(share)})"
                for raw, share, places in zip(raws, shares, decimals, strict=True)
            ),
        )
        for title, raws, shares in zip(titles, condition.raw_matrix, condition.matrix, strict=True)
    ]
    return TextTable(condition.name, ("", *(f"on {title}" for title in titles)), rows)


def sequence_tables(scores: SequenceScores) -> list[TextTable]:
    """Scores, the paper's where it has any, and the metrics of conditions that learn in sequence."""
    tables = [score_table(scores), paper_table(scores)]
    tables += [metric_table(scores), continual_world_table(scores)] if scores.conditions else []
    return [table for table in tables if table]

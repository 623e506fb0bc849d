"""`reaper generator-bench`: what the generators of finished runs are worth."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict

import torch
from rich.console import Console
from rich.table import Table

from reaper.errors import UserError
from reaper.report.generator_quality import MEASURES, TaskQuality, measure_run, rank_correlation
from reaper.results.runs import read_results
from reaper.storage.files import atomic_write, check_output_file
from reaper.storage.store import Store


def generator_bench(arguments: argparse.Namespace, console: Console) -> None:
    if arguments.json is not None:
        check_output_file(arguments.json)
    torch.set_num_threads(1)  # networks and batches are small
    found: list[TaskQuality] = []
    for out in arguments.outs:
        store = Store.open(out)
        for run in read_results(store):
            for quality in measure_run(store, run):
                found.append(quality)
                Console(stderr=True).print(
                    f"{quality.condition}, seed {quality.seed}, after {quality.after} tasks: {quality.task}",
                    highlight=False,
                )
    if not found:
        raise UserError(f"{arguments.outs[0]} holds no finished long-term memory with a generator of images")
    console.print(_table(found), highlight=False)
    console.print(_correlations(found), highlight=False)
    if arguments.json is not None:
        rows = [{name: None if value != value else value for name, value in asdict(row).items()} for row in found]
        atomic_write(arguments.json, json.dumps(rows, indent=1).encode())


def _table(found: list[TaskQuality]) -> Table:
    """The last generator of each run."""
    last = {(row.condition, row.seed): row.after for row in found}
    table = Table("condition", "seed", "task", box=None, header_style="bold")
    for name in (*MEASURES, "score"):
        table.add_column(name, justify="right")
    for row in found:
        if row.after == last[row.condition, row.seed]:
            values = [getattr(row, name) for name in MEASURES]
            table.add_row(row.condition, str(row.seed), row.task, *map(_number, (*values, row.before)))
    return table


def _correlations(found: list[TaskQuality]) -> Table:
    """With what the next agent kept of the score, where there was something to keep."""
    rows = [row for row in found if row.before > 0.5 and math.isfinite(row.kept)]
    kept = [row.kept / row.before for row in rows]
    table = Table("rank correlation with the kept score", *MEASURES, "pairs", box=None, header_style="bold")
    values = [rank_correlation([getattr(row, name) for row in rows], kept) for name in MEASURES]
    table.add_row("all generators that a consolidation used", *map(_number, values), str(len(rows)))
    return table


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"

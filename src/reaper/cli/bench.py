"""`reaper bench`: how fast this machine is at each part of a run."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping

import torch
from rich.console import Console
from rich.table import Table

from reaper.bench.benchmark import Benchmark
from reaper.bench.measurement import BARE_EMULATION
from reaper.compute.layouts import is_small
from reaper.engines.resources import keep_freed_memory, resolve_device
from reaper.errors import UserError
from reaper.storage.files import atomic_write, check_output_file
from reaper.study.options import DEFAULT_TASKS
from reaper.study.plan import resolve_settings
from reaper.tasks.observation import state_spec
from reaper.tasks.sequence import SEQUENCES, find_sequence


def bench(arguments: argparse.Namespace, console: Console) -> None:
    if not (math.isfinite(arguments.seconds) and arguments.seconds > 0):
        raise UserError(f"--seconds must be a finite number above 0, not {arguments.seconds}")
    if arguments.repeats < 1:
        raise UserError(f"--repeats must be at least 1, not {arguments.repeats}")
    if arguments.json is not None:
        check_output_file(arguments.json)
    sequence = find_sequence(arguments.tasks or DEFAULT_TASKS)
    preset, settings = resolve_settings(sequence, preset=arguments.preset)
    settings = sequence.complete(settings)
    device = torch.device(resolve_device(arguments.device))
    if device.type == "cuda" or is_small(state_spec(settings.observation)):
        torch.set_num_threads(1)
    keep_freed_memory()
    benchmark = Benchmark(
        tasks=sequence.tasks,
        num_actions=sequence.num_actions,
        settings=settings,
        device=device,
        seconds=arguments.seconds,
        repeats=arguments.repeats,
        report=Console(stderr=True).print,
    )
    benchmark.run()
    known = {name: tasks for name, tasks in SEQUENCES.items() if set(tasks) <= set(sequence.names)}
    hours = {
        name: benchmark.predicted_hours(tasks) for name, tasks in (known or {sequence.name: sequence.names}).items()
    }
    console.print(_rate_table(benchmark), highlight=False)
    console.print(_hours_table(hours, preset), highlight=False)
    if arguments.json is not None:
        measurements = [measurement.to_json() for measurement in benchmark.measurements]
        found = {"machine": benchmark.machine(), "measurements": measurements, "set_up": benchmark.set_up}
        atomic_write(arguments.json, json.dumps({**found, "hours": hours}, indent=1).encode())


def _rate_table(benchmark: Benchmark) -> Table:
    table = Table("part of a run", "task", "speed", "share of bare emulation", box=None, header_style="bold")
    for measured in benchmark.measurements:
        share = "" if measured.share is None else f"{measured.share:.2f}"
        share += "" if measured.of == BARE_EMULATION or not share else f" of {measured.of}"
        table.add_row(measured.what, measured.task, f"{measured.rate:,.0f} {measured.unit}/s", share)
    return table


def _hours_table(hours: Mapping[str, Mapping[str, float]], preset: str) -> Table:
    table = Table(f"predicted for RePR, preset {preset}", *hours, box=None, header_style="bold")
    for part in next(iter(hours.values())):
        table.add_row(part, *(f"{parts[part]:.3f} h" for parts in hours.values()))
    return table

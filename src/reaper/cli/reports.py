"""`reaper report`, `reaper results` and `reaper watch`: what an output folder holds."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from reaper.report.page import write_report
from reaper.report.text_report import markdown_report, terminal_report
from reaper.results import tidy
from reaper.results.commands import merged_commands
from reaper.results.runs import read_results
from reaper.storage.files import atomic_write, check_output_file
from reaper.storage.store import Store


def report(arguments: argparse.Namespace, console: Console) -> None:
    print_report(arguments.out, console, markdown=arguments.markdown, videos=not arguments.no_videos)


def print_report(
    out: Path,
    console: Console,
    *,
    markdown: Path | None = None,
    videos: bool = True,
    experiment: str | None = None,
) -> None:
    """Prints all tables, or those of one experiment, and writes the HTML page."""
    if markdown is not None:
        check_output_file(markdown)
    store = Store.open(out)
    for part in terminal_report(store, experiment, console.width):
        console.print(part)
    commands = merged_commands(run.command for run in store.runs())
    page = write_report(store, commands, videos)
    if markdown is not None:
        atomic_write(markdown, markdown_report(store, commands).encode())
        print(f"tables: {markdown}")
    print(f"page: {page}")


def results(arguments: argparse.Namespace, console: Console) -> None:
    """Prints every score as tidy rows."""
    store = Store.open(arguments.out)
    write = tidy.as_json if arguments.json else tidy.as_csv
    text = write(read_results(store), store.header.fraction)
    try:
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def watch(arguments: argparse.Namespace, console: Console) -> None:
    """Shows the live state of a run."""
    from reaper.monitoring.watch import watch

    watch(arguments.out, console, once=arguments.once, json_=arguments.json)

"""`reaper reproduction`: our results next to the paper's."""

from __future__ import annotations

import argparse

from rich.console import Console

from reaper.errors import UserError
from reaper.results.studies import write_source
from reaper.storage.files import atomic_write, check_output_file
from reaper.storage.store import Store


def reproduction(arguments: argparse.Namespace, console: Console) -> None:
    """Adds output folders to a folder of summaries, then compares what is there with the paper."""
    if arguments.commit and not arguments.add:
        raise UserError("--commit goes with --add")
    if arguments.markdown is not None:
        check_output_file(arguments.markdown)
    for out in arguments.add:
        store = Store.open(out)
        written = write_source(store, arguments.data, out.resolve().name, arguments.commit)
        print("results: " + ", ".join(map(str, written)))
    _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    """Prints the claims, and writes the page."""
    from reaper.report.reproduction.claims import claim_lines, summary_sentence
    from reaper.report.reproduction.evidence import read_groups
    from reaper.report.reproduction.page import reproduction_page

    groups = read_groups(arguments.data)
    for line in (*claim_lines(groups), summary_sentence(groups)):
        print(line)
    if arguments.markdown is not None:
        atomic_write(arguments.markdown, reproduction_page(arguments.data).encode())
        print(f"page: {arguments.markdown}")

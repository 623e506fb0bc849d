"""`reaper reproduction`: our results next to the paper's."""

from __future__ import annotations

import argparse

from rich.console import Console

from reaper.errors import UserError
from reaper.results.studies import read_sources, source_files, write_sources
from reaper.storage.files import atomic_write, check_output_file
from reaper.storage.store import Store


def reproduction(arguments: argparse.Namespace, console: Console) -> None:
    """Adds output folders to a folder of summaries, then compares what is there with the paper."""
    if arguments.commit and not arguments.add:
        raise UserError("--commit goes with --add")
    if arguments.markdown is not None:
        check_output_file(arguments.markdown)
    files: dict[str, str] = {}
    for out in arguments.add:
        files |= source_files(Store.open(out), out.resolve().name, arguments.commit)
    if arguments.data.exists() or not files:
        read_sources(arguments.data)  # what is wrong there is said before anything is written
    if files:
        write_sources(arguments.data, files)
        print("results: " + ", ".join(str(arguments.data / name) for name in files))
    _compare(arguments)


def _compare(arguments: argparse.Namespace) -> None:
    """Prints the claims, and writes the page."""
    from reaper.report.reproduction.claims import claim_lines, summary_sentence
    from reaper.report.reproduction.evidence import read_groups, reported
    from reaper.report.reproduction.page import page_images, reproduction_page

    groups = reported(read_groups(arguments.data))
    for line in (*claim_lines(groups), summary_sentence(groups)):
        print(line)
    if arguments.markdown is not None:
        for name, content in page_images(arguments.data).items():
            path = arguments.markdown.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, content)
        atomic_write(arguments.markdown, reproduction_page(arguments.data).encode())
        print(f"page: {arguments.markdown}")

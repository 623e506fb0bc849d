"""Prints the queue of studies: what is done, what it cost, what is next, and the command of each."""

from __future__ import annotations

import argparse

from reaper.results.queue import Progress, progress, read_queue
from reaper.results.studies import Source, describe, read_sources
from reaper.storage.store import Store


def show_queue(arguments: argparse.Namespace) -> None:
    """Finished seeds are read from the summaries in DATA and from the output folders given."""
    sources: list[Source] = [source for source, _ in read_sources(arguments.data)]
    sources += [describe(Store.open(out), out.name, "") for out in arguments.stores]
    rows = progress(read_queue(arguments.data), sources)
    for row in rows:
        _show(row)
    done = sum(not row.left for row in rows)
    print(f"{done} of {len(rows)} entries are done; left: about {sum(row.minutes_left for row in rows) / 60:.1f} hours")


def _show(row: Progress) -> None:
    entry = row.entry
    state = "done" if not row.left else f"{len(row.finished)} of {len(entry.seeds)} seeds"
    took = f", took {sum(row.finished.values()):,.0f} min" if row.finished else ""
    left = f", about {row.minutes_left:,.0f} min left on {entry.machine}" if row.left else ""
    print(
        f"[{state}] {entry.study} on {entry.sequence}, preset {entry.preset}, fraction {entry.fraction:g}{took}{left}"
    )
    if row.left:
        print(f"    {entry.command_for(row.left)}")
        print(f"    predicted {entry.minutes:,.0f} min per seed: {entry.basis}")

"""Table F-over: how far games use the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from reaper.paper.results import FISHER_OVERLAP, TASKS, TITLES
from reaper.report.findings import listed
from reaper.report.reproduction.claims import with_interval
from reaper.report.reproduction.evidence import Group, mean_of
from reaper.report.reproduction.section import Section
from reaper.report.text_table import TextTable


def fisher_overlap(groups: Sequence[Group]) -> Section:
    found = [group for group in groups if any(group.overlaps("RePR", p) for p in combinations(group.tasks, 2))]
    return Section(
        "Table F-over: Fisher overlap",
        "overlap",
        "How far two games use the same weights of RePR's last network, 0 to 1; one seed. Road Runner and Boxing "
        "overlap most in either order.",
        [_papers_overlap(), *map(_our_overlap, found)],
        " ".join(map(_overlap_verdict, found)) or "Not run yet.",
    )


def _papers_overlap() -> TextTable:
    titles, pairs = dict(zip(TASKS, TITLES, strict=True)), list(combinations(TASKS, 2))
    rows = [(name, *(f"{values[pair]:.3f}" for pair in pairs)) for name, values in FISHER_OVERLAP.items()]
    header = ("condition", *(f"{titles[a]} & {titles[b]}" for a, b in pairs))
    return TextTable("The paper's overlap", header, rows)


def _our_overlap(group: Group) -> TextTable:
    titles, pairs = dict(zip(group.tasks, group.titles(group.tasks), strict=True)), list(combinations(group.tasks, 2))
    rows = [(name, *(with_interval(group.overlaps(name, p), 3) for p in pairs)) for name in FISHER_OVERLAP]
    header = ("condition", *(f"{titles[a]} & {titles[b]}" for a, b in pairs))
    return TextTable(f"Our overlap ({group.name})", header, rows, ["95 % intervals over seeds by Student's t."])


def _overlap_verdict(group: Group) -> str:
    pairs = list(combinations(group.tasks, 2))
    most = []
    for name in FISHER_OVERLAP:
        values = {pair: mean_of(group.overlaps(name, pair)) for pair in pairs if group.overlaps(name, pair)}
        most += [max(values, key=lambda pair: values[pair])] if values else []
    everything = [mean_of(group.overlaps(name, p)) for name in FISHER_OVERLAP for p in pairs if group.overlaps(name, p)]
    if len(most) < len(FISHER_OVERLAP):
        what = f"{listed(group.titles(most[0]))} overlap most, in the one order that has been run"
    elif len(set(most)) == 1:
        what = f"{listed(group.titles(most[0]))} overlap most in either order, a stable pair as in the paper"
    else:
        what = "which pair overlaps most depends on the order, unlike in the paper"
    theirs = [value for values in FISHER_OVERLAP.values() for value in values.values()]
    return (
        f"{group.name}: {what}; values are {min(everything):.2f} to {max(everything):.2f} (paper: "
        f"{min(theirs):.2f} to {max(theirs):.2f})."
    )

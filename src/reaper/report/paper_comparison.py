"""Our scores compared with the paper's, where the tasks are the paper's: ratios, and one verdict per row."""

from __future__ import annotations

import math

import numpy as np

from reaper.paper.results import COMPRESSED_GIGABYTES, SINGLE, Score, average_ratio
from reaper.report.findings import listed
from reaper.report.references import Reference
from reaper.report.scores import ConditionScores, SequenceScores
from reaper.report.text_table import UNKNOWN, TextTable, mean_and_deviation, memory_unit, number, score

Row = tuple[str, ConditionScores | Reference, tuple[Score | None, ...]]  # label, ours, the paper's
NOT_COMPARABLE = "not comparable: run at a fraction of the budget"


def verdict(titles: tuple[str, ...], ours: list[Score | None], theirs: tuple[Score | None, ...], share: float) -> str:
    """Whether the paper's row was reproduced: on every task within the larger of the two standard deviations."""
    pairs = [(title, a, b) for title, a, b in zip(titles, ours, theirs, strict=True) if a and b]
    if not pairs:
        return UNKNOWN
    if share < 1:
        return NOT_COMPARABLE
    apart = [(title, a.mean - b.mean) for title, a, b in pairs if abs(a.mean - b.mean) > max(a.deviation, b.deviation)]
    better, worse = [title for title, gap in apart if gap > 0], [title for title, gap in apart if gap < 0]
    if better and worse:
        return f"better on {listed(better)}, worse on {listed(worse)}"
    one_sided = f"better on {listed(better)}" if better else f"worse on {listed(worse)}" if worse else ""
    if len(apart) == len(pairs):
        return "better" if better else "worse"
    return one_sided or "reproduced"


def paper_table(scores: SequenceScores) -> TextTable | None:
    """The paper's scores for the same conditions and tasks, and ours relative to them; None where it has none."""
    rows: list[Row] = [(row.name, row, row.published) for row in scores.conditions if row.published]
    rows += [(row.label, row, row.published) for row in scores.references if any(row.published)]
    if not any(isinstance(row, ConditionScores) for _, row, _ in rows):
        return None
    columns: dict[str, list[str]] = {"condition": [label for label, _, _ in rows]}
    ours = [_ours(row) for _, row, _ in rows]
    for j, title in enumerate(scores.titles):
        columns[title] = [_printed(own[j], theirs[j]) for own, (_, _, theirs) in zip(ours, rows, strict=True)]
    columns |= _share_columns(scores, rows) | _memory_columns(rows)
    share = scores.share_of_budget
    columns["verdict"] = [
        verdict(scores.titles, own, theirs, share) for own, (_, _, theirs) in zip(ours, rows, strict=True)
    ]
    rows_of_text = list(zip(*columns.values(), strict=True))
    return TextTable("Compared with the paper", tuple(columns), rows_of_text, _notes(share), name="paper")


def _notes(share: float) -> list[str]:
    notes = [
        "The paper's scores; in brackets, our mean divided by the paper's. Share of single: scores divided by those of "
        "the single-task DQNs, averaged over tasks."
    ]
    if share < 1:
        return [*notes, f"Trained with {share:.3g} of the paper's budget, so the scores are not comparable."]
    return [*notes, "Reproduced: the means differ by at most the larger of the two standard deviations."]


def _ours(row: ConditionScores | Reference) -> list[Score | None]:
    return [Score(*mean_and_deviation(scores)) if len(scores) else None for scores in row.episodes]


def _printed(ours: Score | None, theirs: Score | None) -> str:
    """The paper's score and the ratio of ours to it; no ratio to a score of zero or less."""
    if not theirs:
        return UNKNOWN
    ratio = number(ours.mean / theirs.mean) if ours and theirs.mean > 0 else UNKNOWN
    return f"{score(*theirs, 0)} ({ratio})"


def _share_columns(scores: SequenceScores, rows: list[Row]) -> dict[str, list[str]]:
    """The paper's own summary of a row (90 % for `reh`, 80 % for `RePR`), and ours computed the same way."""
    if not all(task in SINGLE for task in scores.tasks) or len(scores.tasks) != len(SINGLE):
        return {}
    shares = [
        (_share_of_single(row), average_ratio(label)) if isinstance(row, ConditionScores) else (math.nan, math.nan)
        for label, row, _ in rows
    ]
    ours, theirs = zip(*shares, strict=True)
    return {"share of single": list(map(_percent, ours)), "share of single (paper)": list(map(_percent, theirs))}


def _share_of_single(condition: ConditionScores) -> float:
    """NaN where a single-task DQN does not score above zero, or is no better than random play."""
    pairs = [(run.final.mean(axis=1), run.single.mean(axis=1)) for run in condition.complete]
    if (
        not pairs
        or any((single <= 0).any() for _, single in pairs)
        or not all(run.defined.all() for run in condition.complete)
    ):
        return math.nan
    return float(np.mean([score / single for score, single in pairs]))


def _percent(share: float) -> str:
    return UNKNOWN if math.isnan(share) else f"{share * 100:.0f} %"


def _memory_columns(rows: list[Row]) -> dict[str, list[str]]:
    """The paper's memory, and for a condition with raw items what it would be if they were compressed."""
    sizes = [row.published_bytes if isinstance(row, ConditionScores) else math.nan for _, row, _ in rows]
    if all(map(math.isnan, sizes)):
        return {}
    name, size, decimals = memory_unit(sizes)
    columns = {f"memory in the paper ({name})": [number(value / size, decimals) for value in sizes]}
    compressed = [
        COMPRESSED_GIGABYTES.get(label, math.nan) * 1e9 if not math.isnan(own) else math.nan
        for (label, _, _), own in zip(rows, sizes, strict=True)
    ]
    if not all(map(math.isnan, compressed)):
        columns[f"compressed in the paper ({name})"] = [number(value / size, decimals) for value in compressed]
    return columns

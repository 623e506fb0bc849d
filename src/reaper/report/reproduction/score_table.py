"""Table score-table: final scores, shares of single-task DQNs, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from reaper.config.presets import PAPER
from reaper.paper.results import SCORES, SINGLE, TASKS, TITLES, Score, average_ratio
from reaper.report.paper_comparison import verdict
from reaper.report.reproduction.claims import summary_sentence, with_interval
from reaper.report.reproduction.evidence import OURS, BySeed, Group, having, mean_of
from reaper.report.reproduction.section import Section
from reaper.report.text_table import UNKNOWN, TextTable
from reaper.report.text_table import score as score_text
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS, MAIN
from reaper.study.preflight import memory_bytes
from reaper.tasks.sequence import Sequence as TaskSequence
from reaper.tasks.task import Task

GIGABYTE = 10**9


def score_table(groups: Sequence[Group]) -> Section:
    found = having(groups, MAIN)
    tables = [_scores_next_to_the_papers(group) for group in found if tuple(group.tasks) == TASKS]
    tables += [_scores(group) for group in found if tuple(group.tasks) != TASKS]
    tables += [_shares(found), _memory()]
    return Section(
        "Table score-table: final scores and memory",
        "main",
        "Nine conditions learn three games. The paper has three seeds with 30 episodes each, and sums up: `reh` keeps "
        "90 % of the scores of DQNs trained on one game each, RePR 80 %.",
        tables,
        _main_verdict(found),
    )


def _main_verdict(found: Sequence[Group]) -> str:
    if not found:
        return "Not run yet."
    atari = [group for group in found if group.is_atari]
    parts = [summary_sentence(found)]
    for group in atari:
        shares = {name: group.shares(name) for name in MAIN if group.shares(name)}
        text = ", ".join(f"{name} {mean_of(values):.0%}" for name, values in shares.items()).replace("%", " %")
        parts.append(
            f"On {group.name} the shares of single-task DQNs are: {text}; "
            f"{len(MAIN) - len(shares)} of {len(MAIN)} conditions have not been run there."
        )
    return " ".join(parts)


def _scores_next_to_the_papers(group: Group) -> TextTable:
    """Both scores in one cell, the paper's first."""
    rows = []
    for name in (*MAIN, "single"):
        theirs = tuple(SINGLE[task] for task in TASKS) if name == "single" else SCORES[name].scores
        ours = [group.score(name, task) for task in TASKS]
        cells = [f"{_short(paper)} / {_short(own)}" for paper, own in zip(theirs, ours, strict=True)]
        judged = verdict(TITLES, ours, theirs, group.share) if any(ours) else "not run yet"
        rows.append((name, *cells, judged))
    title = f"Scores, the paper's / ours ({group.name})"
    return TextTable(title, ("condition", *TITLES, "verdict"), rows, ["Mean ± standard deviation over episodes."])


def _short(value: Score | None) -> str:
    return UNKNOWN if value is None else score_text(*value, 0)


def _scores(group: Group) -> TextTable:
    cells = {name: [group.score(name, task) for task in group.tasks] for name in (*MAIN, *OURS, "single", "random")}
    rows = [
        (name, *(UNKNOWN if cell is None else score_text(*cell, 1) for cell in own))
        for name, own in cells.items()
        if any(own)
    ]
    notes = ["Mean ± standard deviation over all episodes of all seeds. The games are ours, so only shares compare."]
    return TextTable(f"Scores ({group.name})", ("condition", *group.titles(group.tasks)), rows, notes)


def _shares(groups: Sequence[Group]) -> TextTable:
    ours = {name: [_summed_up(group, name) for group in groups] for name in (*MAIN, *OURS)}
    rows = [
        (name, f"{average_ratio(name):.2f}" if name in MAIN else UNKNOWN, *map(with_interval, found))
        for name, found in ours.items()
        if name in MAIN or any(found)
    ]
    notes = [
        "The paper and Atari: scores divided by those of single-task DQNs, averaged over games. Our own games, where "
        "scores can be negative: 0 is random play, 1 is a DQN per game. 95 % intervals over seeds by Student's t."
    ]
    header = ("condition", "paper", *(group.name for group in groups))
    return TextTable("Share of what single-task DQNs reach", header, rows, notes)


def _summed_up(group: Group, condition: str) -> BySeed:
    return group.shares(condition) if group.is_atari else group.levels(condition)


def _memory() -> TextTable:
    """From the sizes of networks and items: no training is needed to know them."""
    rows = []
    tasks = tuple(Task(name, name, 18, _no_env) for name in TASKS)
    for name in MAIN:
        chain = build_chain(CONDITIONS[name], TaskSequence("atari-3", tasks), 0, PAPER)
        size, printed = memory_bytes(chain, len(TASKS)), SCORES[name].memory_gigabytes
        ours = f"{size / GIGABYTE:.3f}"
        same = "yes" if ours == f"{printed:.3f}" else "six times the rounded 0.007" if name == "ewc" else "no"
        rows.append((name, f"{printed:.3f}", ours, f"{size:,}", same))
    header = ("condition", "paper (GB)", "ours (GB)", "ours (bytes)", "equal")
    notes = ["Computed from the preset `paper` after three games of 18 actions; GB is 10^9 bytes."]
    return TextTable("Memory", header, rows, notes)


def _no_env(_options: object) -> NoReturn:
    raise AssertionError("sizes are computed without playing")

"""Table scratch: networks that learn from real or generated items alone."""

from __future__ import annotations

from collections.abc import Sequence

from reaper.paper.results import SCORES, SCRATCH, SINGLE, TASKS, TITLES
from reaper.report.reproduction.claims import with_interval
from reaper.report.reproduction.evidence import Group, mean_of
from reaper.report.reproduction.section import Section
from reaper.report.text_table import TextTable, number
from reaper.report.text_table import score as score_text
from reaper.study.analyses.grid import average_of_known

ITEMS = ("real", "generated")


def scratch(groups: Sequence[Group]) -> Section:
    found = [group for group in groups if _shares(group)]
    return Section(
        "Table scratch: students trained from scratch",
        "item-quality",
        "New networks learn from real or from generated items alone; one seed. Generated items of one game teach it "
        "less well than real ones, and those of all three teach next to nothing, yet they suffice to retain.",
        [_papers_students(), *map(_our_students, found)],
        " ".join(map(_students_verdict, found)) or "Not run yet.",
    )


def _papers_students() -> TextTable:
    """The paper's scores, and the same divided by the teacher's: a DQN per game, or RePR's last network."""
    rows = []
    for name, cells in SCRATCH.items():
        teachers = SCORES["RePR"].scores if name.endswith("3T") else [SINGLE[task] for task in TASKS]
        pairs = [(cell, teacher) for cell, teacher in zip(cells, teachers, strict=True) if cell]
        share = sum(cell.mean / teacher.mean for cell, teacher in pairs) / len(pairs)
        rows.append((name, *(score_text(*cell, 0) if cell else "" for cell in cells), f"{share:.2f}"))
    notes = ["Share: score divided by the teacher's in Table score-table, averaged over the games."]
    return TextTable("The paper's students", ("trained on", *TITLES, "share of teacher"), rows, notes)


def _cases(group: Group) -> list[list[str]]:
    return [*([task] for task in group.tasks), group.tasks]


def _shares(group: Group) -> dict[tuple[str, int], float]:
    """(items, place of the case) -> the average share of the teacher's score."""
    found = {}
    for items in ITEMS:
        for place, tasks in enumerate(_cases(group)):
            values = [mean_of(group.student_shares(items, tasks, task)) for task in tasks]
            if any(value == value for value in values):
                found[items, place] = average_of_known(values)
    return found


def _our_students(group: Group) -> TextTable:
    rows = []
    for place, tasks in enumerate(_cases(group)):
        title = f"all {len(tasks)}" if len(tasks) > 1 or len(group.tasks) == 1 else group.titles(tasks)[0]
        for items in ITEMS:
            cells = [with_interval(group.student_shares(items, tasks, t)) if t in tasks else "" for t in group.tasks]
            rows.append((f"{items}, {title}", *cells, number(_shares(group).get((items, place), float("nan")))))
    notes = ["0 is random play, 1 is the student's teacher. 95 % intervals over seeds by Student's t."]
    header = ("trained on", *group.titles(group.tasks), "average")
    return TextTable(f"Our students, as shares of their teachers ({group.name})", header, rows, notes)


def _students_verdict(group: Group) -> str:
    shares, last = _shares(group), len(group.tasks)
    alone = [average_of_known([shares.get((items, k), float("nan")) for k in range(last)]) for items in ITEMS]
    together = [shares.get((items, last), float("nan")) for items in ITEMS]
    agrees = alone[1] < alone[0] - 0.05
    collapsed = together[1] < together[0] / 2  # the paper: next to nothing is learnt
    return (
        f"{group.name}: of one game, generated items teach {number(alone[1])} of the teacher's score and real ones "
        f"{number(alone[0])}, {'less, as in the paper' if agrees else 'hardly less, unlike in the paper'}; of all "
        f"games at once {number(together[1])} against {number(together[0])}, "
        f"{'the same collapse as in the paper' if collapsed else 'a smaller loss than in the paper'}."
    )

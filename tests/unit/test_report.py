"""Reports on stores made by hand, whose every score is known."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from rich.console import Console

from reaper import scales
from reaper.conditions import CONDITIONS
from reaper.report import theme
from reaper.report.curves import curve, over_seeds
from reaper.report.findings import cautions, headline, percent, standing
from reaper.report.grids import decimals_for, memory_unit, metric_grid, number, score_grid
from reaper.report.page import write_page, write_report
from reaper.report.pictures import mosaic
from reaper.report.scores import gather_scores
from reaper.report.tables import for_markdown, for_terminal
from reaper.results import read_results
from reaper.stages import Stage
from reaper.store import Store
from reaper.study import Chain, build_chain
from reaper.tasks.sequence import Sequence as TaskSequence
from reaper.tasks.sequence import find_sequence
from reaper.tasks.task import Task

GAMES = 2
# Lengths of their own, so that the arithmetic below does not change with the scale.
SETTINGS = replace(
    scales.ARCADE,
    evaluation=replace(scales.ARCADE.evaluation, games=GAMES),
    short_term=replace(scales.ARCADE.short_term, observed_frames=40_000),
    long_term=replace(scales.ARCADE.long_term, observed_frames=40_000),
)
MACHINE = {"seconds": 60.0, "device": "cpu", "processor": "abacus", "torch": "9.9"}

# Task 0 scores 0 at random and 10 alone, task 1 scores 0 and 100, task 2 scores -1 and 1.
RANDOM, SINGLE = (0.0, 0.0, -1.0), (10.0, 100.0, 1.0)
# After each task (rows) on each task (columns): a condition that forgets, and one that keeps 80 % and 60 %.
FORGETS = [[10, 0, -1], [1, 100, -1], [0, 10, 1]]
KEEPS = [[10, 0, -1], [9, 100, -1], [8, 60, 0.9]]

Matrix = Sequence[Sequence[float]]


def pair(mean: float) -> list[float]:
    """Two games half a point either side of a mean: their deviation is 0.5."""
    return [mean - 0.5, mean + 0.5]


def write_chain(store: Store, chain: Chain, matrix: Matrix, until: int | None = None) -> None:
    """Writes the stages of a run with these scores; `until` is how many tasks have been consolidated so far."""
    names, last = chain.sequence.names, len(chain.sequence.names) if until is None else until
    size = chain.settings.frames.size
    store.write_run(chain.name, chain.record())

    def write(stage: Stage, tensors: dict, documents: dict) -> None:
        about = {"kind": stage.kind, "title": stage.title, "spec": stage.spec}
        store.write_stage(stage.digest, about, tensors, documents, MACHINE)

    def row(task: str, mean: float, frames: int = 0) -> dict:
        return {"task": task, "observed_frames": frames, "scores": pair(mean)}

    for j, stage in enumerate(chain.teachers):
        real = torch.full((64, 2, size, size), 40 * j, dtype=torch.uint8)
        rows = [row(names[j], SINGLE[j] * share, int(40_000 * share)) for share in (0.5, 1.0)]
        write(stage, {"pictures": {"real": real}}, {"rows": rows})
    for j, stage in enumerate(chain.singles):
        write(stage, {}, {"rows": [row(names[j], SINGLE[j])]})
    assert chain.random
    write(chain.random, {}, {"rows": [row(name, RANDOM[j]) for j, name in enumerate(names)]})
    for k, stage in enumerate(chain.memories[:last]):
        dreamt = torch.randint(0, 255, (96, 2, size, size), dtype=torch.uint8)
        pictures = {"pictures": {"dreamt": dreamt}} if chain.condition.name == "RePR" else {}
        rows = [row(names[j], matrix[k][j], 40_000) for j in range(k + 1)] if k else []
        write(stage, pictures, {"rows": rows, "memory": {"tasks": list(names[: k + 1]), "bytes": 2_500_000 * (k + 1)}})
    for k, stage in enumerate(chain.evaluations[:last]):
        write(stage, {}, {"rows": [row(name, matrix[k][j]) for j, name in enumerate(names)]})


Scores = dict[str, Matrix | None]  # None: nothing consolidated yet


def make_store(
    folder: Path,
    conditions: Scores,
    tasks: str | TaskSequence = "catch,dodge,shooter",
    seeds: Sequence[int] = (0,),
    until: Callable[[str, int], int | None] = lambda condition, seed: None,
    fraction: float = 1.0,
) -> Store:
    common = {"version": "1.2.3", "scale": "arcade", "fraction": fraction, "settings": scales.as_dict(SETTINGS)}
    store = Store.open_for(folder, common)
    sequence = find_sequence(tasks) if isinstance(tasks, str) else tasks
    for name, matrix in conditions.items():
        for seed in seeds:
            chain = build_chain(CONDITIONS[name], sequence, seed, SETTINGS)
            write_chain(store, chain, matrix or [], until(name, seed) if matrix else 0)
    store.close()
    return store


def atari_sequence() -> TaskSequence:
    """The paper's games by name alone, so that no emulator is needed."""
    names = {"ALE/RoadRunner-v5": "Road Runner", "ALE/Boxing-v5": "Boxing", "ALE/Jamesbond-v5": "James Bond"}

    def never(games: int, size: int) -> object:
        raise AssertionError("a report plays no games")

    return TaskSequence("atari-3", tuple(Task(name, title, 18, never) for name, title in names.items()))  # type: ignore


def row_of(markdown: str, heading: str, label: str) -> list[str]:
    """The cells of a row in the first table under a heading."""
    lines = markdown[markdown.index(heading) :].splitlines()
    return next([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith(f"| {label} |"))


# -- numbers


def test_the_score_table_by_hand(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS}, seeds=(0, 1))
    text = for_markdown(store, ["reaper run RePR no-reh --out runs/mine"])
    # memory: 3 tasks x 2.5 MB; both seeds have the same scores
    assert row_of(text, "### Scores", "RePR") == ["RePR", "8.0 ± 0.5", "60 ± 0", "0.90 ± 0.50", "7.50", "2"]
    assert row_of(text, "### Scores", "single")[1:4] == ["10.0 ± 0.5", "100 ± 0", "1.00 ± 0.50"]
    assert row_of(text, "### Scores", "random")[1:4] == ["0.0 ± 0.5", "0 ± 0", "-1.00 ± 0.50"]
    # normalised: 8/10, 60/100, (0.9 + 1)/2; average (0.8 + 0.6 + 0.95)/3
    # forgetting: (1 - 0.8 + 1 - 0.6)/2; nothing transfers forward
    cells = row_of(text, "### Normalised", "RePR")
    assert cells == ["RePR", "0.80", "0.60", "0.95", "0.78", "0.78 to 0.78", "0.30", "-0.30", "0.00"]
    assert row_of(text, "### Normalised", "no-reh")[-3:] == ["0.95", "-0.95", "0.00"]
    assert row_of(text, "**RePR**", "after Dodge") == ["after Dodge", "9.0 (0.90)", "100 (1.00)", "-1.00 (0.00)"]
    assert text.index("| no-reh |") < text.index("| RePR |"), "rows stand in the order of the table of conditions"
    assert "reaper run RePR no-reh --out runs/mine" in text


def test_deviation_is_over_all_games_of_all_seeds(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(0,))
    chain = build_chain(CONDITIONS["RePR"], find_sequence("catch,dodge,shooter"), 1, SETTINGS)
    write_chain(store, chain, [*KEEPS[:2], [4, 60, 0.9]])
    (scores,) = gather_scores(read_results(store))
    # games 7.5, 8.5, 3.5, 4.5: mean 6, deviations 1.5, 2.5, -2.5, -1.5, so sqrt((2.25 + 6.25) / 2) = 2.06
    assert dict(zip(*_header_and_row(score_grid(scores, False), "RePR"), strict=True))["Catch"] == "6.0 ± 2.1"
    cells = dict(zip(*_header_and_row(metric_grid(scores), "RePR"), strict=True))
    assert cells["Catch"] == "0.60"
    # averages: (0.8 + 0.6 + 0.95)/3 = 0.783 and (0.4 + 0.6 + 0.95)/3 = 0.650
    assert (cells["average"], cells["95 % interval"]) == ("0.72", "0.65 to 0.78")


def _header_and_row(grid, label: str):
    return grid.header, next(row for row in grid.rows if row[0] == label)


def test_how_it_was_made_is_told(tmp_path: Path):
    text = for_markdown(make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(3,), fraction=0.25))
    assert "Fraction of the budget: 0.25. Seeds: 3." in text
    assert row_of(text, "### Settings that differ", "frames.size") == ["frames.size", "16", "84"]
    assert "processor: abacus" in text
    assert "torch: 9.9" in text
    # 3 teachers, 3 consolidations; 3 evaluations of memories, 3 of teachers and one of random play: 60 s each
    assert row_of(text, "### Wall time", "evaluate") == ["evaluate", "7", "7.0 min", "1.0 min"]
    assert row_of(text, "### Wall time", "together")[1:3] == ["13", "13.0 min"]


def test_the_paper_stands_beside_its_own_tasks_and_nowhere_else(tmp_path: Path):
    text = for_markdown(make_store(tmp_path / "atari", {"RePR": KEEPS}, atari_sequence()))
    cells = row_of(text, "### Scores", "RePR")
    assert [cells[i] for i in (2, 4, 6)] == ["22042 ± 5375", "82 ± 12", "468 ± 155"]
    assert cells[-2] == "23.00"  # 0.023 GB, in the column's unit
    assert row_of(text, "### Scores", "single")[2] == "29463 ± 7864"
    assert "run at a fraction of the budget, not comparable (0.002 of the paper's frames)" in text
    assert "paper" not in row_of(for_markdown(make_store(tmp_path / "a", {"RePR": KEEPS})), "### Scores", "condition")


def test_conditions_with_other_networks_are_held_against_their_own(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "RePR-extend": KEEPS})
    (scores,) = gather_scores(read_results(store))
    assert [row.label for row in scores.references] == ["single (RePR)", "single (RePR-extend)", "random"]
    assert "network.width" in for_markdown(store)


def test_curves_run_over_the_whole_sequence(tmp_path: Path):
    results = read_results(make_store(tmp_path / "run", {"RePR": KEEPS}, seeds=(0, 1)))
    assert curve(results[0], "catch") == {20_000: 5, 40_000: 10, 80_000: 9, 120_000: 8}
    assert curve(results[0], "shooter") == {120_000: pytest.approx(0.9)}
    frames, mean, spread = over_seeds(results, "dodge")
    assert (frames.tolist(), mean.tolist(), spread.tolist()) == ([80_000, 120_000], [100, 60], [0, 0])


# -- words


def test_the_headline_is_computed(tmp_path: Path):
    both = gather_scores(read_results(make_store(tmp_path / "a", {"RePR": KEEPS, "no-reh": FORGETS, "reh": KEEPS})))
    # kept: (0.8 + 0.6)/2 and (0 + 0.1)/2
    assert headline(both) == "RePR kept 70 % of what it learnt; with nothing done against forgetting, 5 % is left."
    assert "RePR at 78 %" in standing(both[0])
    one = gather_scores(read_results(make_store(tmp_path / "b", {"no-reh": FORGETS})))
    assert headline(one) == "With nothing done against forgetting, 5 % is left of what was learnt."
    assert headline([]) == "There are no runs in this folder yet."
    assert percent(-0.3) == "0 %"


def test_a_task_that_was_not_learnt_is_not_read_as_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "SINGLE", (-1.0, 100.0, 1.0))  # on the first task, worse than random play
    scores = gather_scores(read_results(make_store(tmp_path / "run", {"RePR": KEEPS})))
    assert headline(scores) == "Too little was learnt on Catch to say how much was kept."
    assert _header_and_row(metric_grid(scores[0]), "RePR")[1][1] == "–"
    assert any("hardly better than random play" in text for text in cautions(scores[0], ["RePR"]))


def test_numbers_are_readable():
    assert (number(math.nan), number(-0.001), number(-0.5)) == ("–", "0.00", "-0.50")
    assert [decimals_for([value, math.nan]) for value in (22042, 12.5, 3)] == [0, 1, 2]
    assert [memory_unit([value])[0] for value in (7.063e9, 2.3e7, 9e5)] == ["GB", "MB", "kB"]


# -- pages


@pytest.fixture(autouse=True)
def _coarse_figures(monkeypatch: pytest.MonkeyPatch):
    """Encoding large pictures would be most of these tests' time."""
    monkeypatch.setattr(theme, "DOTS", 40)


def page_of(store: Store, tmp_path: Path) -> str:
    text = write_page(store, tmp_path / "page.html").read_text()
    assert str(tmp_path) not in text, "a page must not show where it was made"
    assert "http" not in text
    assert "<script" not in text
    return text


def test_a_report_has_all_its_files(tmp_path: Path):
    settings_before = dict(mpl.rcParams)
    store = make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS})
    page = write_report(store)
    assert dict(mpl.rcParams) == settings_before
    assert page == tmp_path / "run" / "report" / "index.html"
    names = {"bars.png", "curves.png", "matrices.png", "dreams-RePR.png", "index.html", "scores.csv", "scores.md"}
    assert {path.name for path in page.parent.iterdir()} == names
    assert all((page.parent / name).read_bytes().startswith(b"\x89PNG") for name in names if name.endswith("png"))
    with (page.parent / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    # 2 conditions x 3 x 3 x 2 games, and once each: 3 tasks x 2 games alone and at random
    assert len(rows) == 36 + 12
    last = [row for row in rows if (row["condition"], row["after_task"], row["task"]) == ("RePR", "shooter", "dodge")]
    assert [(row["observed_frames"], row["episode"], row["score"]) for row in last] == [
        ("120000", "0", "59.5"),
        ("120000", "1", "60.5"),
    ]


def test_a_half_finished_run_says_so_and_shows_what_there_is(tmp_path: Path):
    def until(condition: str, seed: int) -> int | None:
        return 2 if condition == "RePR" and seed == 1 else 1 if condition == "reh" else None

    store = make_store(tmp_path / "run", {"RePR": KEEPS, "reh": KEEPS}, seeds=(0, 1), until=until)
    page = page_of(store, tmp_path)
    assert "RePR: 1 of 2 seeds not finished, and not counted." in page
    assert "reh is not finished: 1 of 3 tasks learnt so far." in page
    assert page.count("<figure>") == 4
    assert "1 of 2" in row_of(for_markdown(store), "### Scores", "RePR")


def test_a_run_that_has_just_begun(tmp_path: Path):
    common = {"version": "1", "scale": "arcade", "fraction": 1.0, "settings": scales.as_dict(SETTINGS)}
    store = Store.open_for(tmp_path / "run", common)
    assert "There are no runs in this folder yet." in page_of(store, tmp_path)
    chain = build_chain(CONDITIONS["RePR"], find_sequence("catch,dodge"), 0, SETTINGS)
    store.write_run(chain.name, chain.record())
    assert "Not finished yet: RePR has learnt 0 of 2 tasks." in page_of(store, tmp_path)
    assert "0 of 9 finished" in for_markdown(store)


def test_one_task(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": [[9]], "no-reh": [[10]]}, "catch")
    page = page_of(store, tmp_path)
    assert "One task so far, so nothing could be forgotten: Catch 10.0 (random play 0.0)." in page
    assert "there is nothing to forget" in page
    assert row_of(for_markdown(store), "### Normalised", "RePR") == ["RePR", "0.90", "0.90", "–", "–", "–"]


def test_only_single(tmp_path: Path):
    store = make_store(tmp_path / "run", {"single": KEEPS})
    assert "One DQN a task: Catch 10.0 (random play 0.0)," in page_of(store, tmp_path)
    assert row_of(for_markdown(store), "### Scores", "single") == [
        "single",
        "10.0 ± 0.5",
        "100 ± 0",
        "1.00 ± 0.50",
        "–",
    ]


def test_several_orders_in_one_folder(tmp_path: Path):
    make_store(tmp_path / "run", {"RePR": KEEPS, "no-reh": FORGETS})
    store = make_store(tmp_path / "run", {"RePR": KEEPS}, "dodge,catch,shooter")
    path = write_report(store)
    page = path.read_text()
    assert page.count("<h2>") == 3  # two sequences, and how it was made
    assert "Not run on this sequence: no-reh." in page
    assert "in 2 orders" in page
    assert (path.parent / "2-bars.png").exists()


def test_the_terminal_shows_every_number_whole(tmp_path: Path):
    console = Console(width=80, record=True, file=(tmp_path / "log").open("w"))
    for table in for_terminal(read_results(make_store(tmp_path / "run", {"RePR": KEEPS}, atari_sequence()))):
        console.print(table)
    text = console.export_text()
    assert "22042 ± 5375" in text
    assert "…" not in text


def test_a_mosaic_keeps_every_pixel():
    frames = np.arange(5 * 4).reshape(5, 2, 2)
    picture = mosaic(frames, rows=2, columns=3)
    assert picture.shape == (5, 8)
    np.testing.assert_array_equal(picture[3:5, 3:5], frames[4])
    assert np.isnan(picture[3:5, 6:]).all()

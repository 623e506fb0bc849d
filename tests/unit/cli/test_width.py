"""Everything the commands print as a table fits into 80 columns, in a terminal and in a file."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import handmade
import pytest
from handmade import make_store
from rich.console import Console, RenderableType

from reaper.bench.measurement import GENERATOR_WITH_EVALUATIONS, Measurement
from reaper.cli import bench, dry_run, listings
from reaper.cli.main import main
from reaper.monitoring import watch
from reaper.monitoring.live import RUNNING, LiveRecord
from reaper.monitoring.status import FolderStatus, RunStatus, StageStatus
from reaper.report.table_formats import terminal_tables
from reaper.report.text_report import terminal_report
from reaper.report.text_table import TextTable
from reaper.study.conditions import CONDITIONS, Condition, register_condition
from reaper.study.experiments import EXPERIMENTS, plan_experiment
from reaper.study.options import StudyOptions
from reaper.tasks import sequence as sequences
from reaper.tasks.sequence import SEQUENCES, Sequence, find_sequence
from reaper.tasks.task import Task
from reaper.tasks.titles import short_title

LISTINGS = ("conditions", "tasks", "engines", "presets", "settings", "equations", "zoo")
NAMES = (
    "Minigrid/MultiRoomWithSeveralLockedDoors-N6-v0",
    "Mini/breakout-v0",
    "vendor.package:Procgen/CaveFlyerExploration-v3",
    "ALE/MontezumaRevenge-v5",
    "SpaceInvadersNoFrameskip-v4",
    "Supercalifragilisticexpialidocious-v0",
)


def lines(*parts: RenderableType, width: int = 80, terminal: bool = True) -> list[str]:
    file = io.StringIO()
    console = Console(width=width, file=file, force_terminal=terminal, color_system=None)
    for part in parts:
        console.print(part, highlight=False)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def assert_fits(shown: list[str], width: int = 80) -> None:
    assert shown
    assert [line for line in shown if len(line) > width] == []


@pytest.fixture
def in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def six_tasks(monkeypatch: pytest.MonkeyPatch) -> Sequence:
    """Six games with long names, as a sequence whose name is the list of them."""

    def never(options: object) -> Any:
        raise AssertionError("nothing is played")

    monkeypatch.setattr(handmade, "RANDOM", (0.0,) * 6)
    monkeypatch.setattr(handmade, "SINGLE", (10.0, 100.0, 29463.5, 10.0, 10.0, 10.0))
    return Sequence(",".join(NAMES), tuple(Task(name, short_title(name), 4, never) for name in NAMES))


MATRIX = [[score / (k + 1) for score in (10, 100, 26486, 9, -7, 8)] for k in range(6)]  # ends at 4414 and -1.2


# -- listings


@pytest.mark.parametrize("command", LISTINGS)
def test_listings_in_a_file(command: str, in_80_columns: None, capsys: pytest.CaptureFixture[str]):
    assert main([command]) == 0
    assert_fits(capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("command", ["conditions", "tasks"])
@pytest.mark.parametrize("width", [80, 100, 200])
def test_one_line_for_each_row(command: str, width: int):
    """Also for a plugged-in condition with a long name and much to say."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    getattr(listings, command)(SimpleNamespace(json=False), console)
    table = [line.strip() for line in console.file.getvalue().split("\n\n")[0].splitlines()]  # type: ignore[attr-defined]
    names = list(CONDITIONS) if command == "conditions" else [*SEQUENCES, *sequences.TASKS]
    assert [line.split()[0] for line in table[1:]] == names
    assert_fits(table, width)
    assert "…" not in "".join(table)


def test_a_plugged_in_condition_has_one_line_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CONDITIONS, "_things", dict(CONDITIONS._things))
    none = CONDITIONS["no-reh"].retention
    register_condition(Condition("a-condition-with-a-long-name", "distillation", none, about="and much to say " * 9))
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system=None)
    listings.conditions(SimpleNamespace(json=False), console)  # type: ignore[arg-type]
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(shown) == 1 + len(CONDITIONS) + 2  # the header; an empty line and the note
    assert_fits(shown)


# -- titles


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Mini/breakout-v0", "Breakout"),
        ("ALE/RoadRunner-v5", "Road Runner"),
        ("ALE/Jamesbond-v5", "James Bond"),
        ("ALE/Qbert-v5", "Q*bert"),
        ("SpaceInvadersNoFrameskip-v4", "Space Invaders"),
        ("vendor:Cave_Flyer-v0", "Cave Flyer"),
        ("MiniGrid-Empty-5x5-v0", "Empty 5x5"),
        ("-v0", "-v0"),
    ],
)
def test_short_titles_of_gymnasium_ids(name: str, title: str):
    assert short_title(name) == title


def test_tasks_with_the_same_title_are_told_apart():
    tasks = tuple(Task(name, short_title(name), 4, lambda options: None) for name in ("A/x-v0", "B/x-v0", "A/y-v0"))  # type: ignore[arg-type, return-value]
    assert Sequence("three", tasks).titles == ("A/x-v0", "B/x-v0", "Y")


# -- reports


def test_reports_on_six_tasks_and_all_conditions(six_tasks: Sequence, tmp_path: Path):
    conditions: handmade.Scores = {name: MATRIX for name in CONDITIONS if name != "single"}
    store = make_store(tmp_path / "run", conditions, six_tasks, seeds=(0, 1))
    for width in (60, 80, 132):
        parts = list(terminal_report(store, width=width))
        for terminal in (True, False):
            shown = lines(*parts, width=width, terminal=terminal)
            assert_fits(shown, width)
            text = "\n".join(shown)
            assert "…" not in text
            for cell in ("4414 ± 0", "-1.2 ± 0.5", "Space", "online-ewc-policy-short"):
                assert cell in text
        for part in parts:  # a table never depends on being cut by the console
            assert max(map(len, lines(part, width=500)), default=0) <= width or not hasattr(part, "columns")


def test_reports_in_a_file(in_80_columns: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    store = make_store(
        tmp_path / "run", {"RePR": handmade.KEEPS, "no-reh": handmade.FORGETS}, handmade.atari_sequence()
    )
    assert main(["report", str(store.folder), "--no-videos"]) == 0
    tables = capsys.readouterr().out.partition("page: ")[0]
    assert_fits(tables.splitlines())
    assert "22042 ± 5375" in tables


def test_notes_have_the_full_width(tmp_path: Path):
    store = make_store(tmp_path / "run", {"RePR": handmade.KEEPS})
    shown = lines(*terminal_report(store))
    (note,) = [line for line in shown if line.startswith("The average is of normalised scores")]
    assert len(note) > 70


def test_long_cells_wrap_between_words():
    wide = TextTable("t", ("x", "verdict"), [("a" * 90, "better on one and worse on many another of these games")])
    shown = lines(*terminal_tables(wide))
    assert_fits(shown)
    assert any(line.endswith("better on one and worse on") for line in shown)


# -- other commands


def test_planned_stages_and_costs(six_tasks: Sequence, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("reaper.study.plan.find_sequence", lambda text: six_tasks)
    study = plan_experiment("extended", StudyOptions(device="cpu", overrides={"long-term.alpha": 0.2}))
    assert_fits(lines(dry_run._stage_table(study, {}), dry_run._settings_table(study)))
    row = {"stages": 1000, "done": 10, "left": 990, "agent_steps": 2_700_000_000, "generator_steps": 12_600_000}
    rows = [{"name": name, "tasks": six_tasks.name, "hours": 70.5, **row} for name in EXPERIMENTS]
    assert_fits(lines(dry_run._cost_table(rows)))


def test_watched_runs():
    record = LiveRecord("d", RUNNING, phase="consolidate Supercalifragilistic", unit="agent steps", done=5, total=9)
    stage = StageStatus("d", f"RePR: consolidate {NAMES[0]} (seed 0)", "memories", False, record)
    stage.state = RUNNING
    run = RunStatus(
        name=f"RePR--{'-'.join(NAMES)}--seed-0",
        stages=30,
        stages_done=3,
        tasks=list(NAMES),
        learnt=2,
        scores={short_title(name): 26486.5 for name in NAMES},
        scored_after=NAMES[0],
    )
    status = FolderStatus(runs=[run], stages=[stage])
    assert_fits(lines(watch.render(status, Path("runs/mine"))))


def test_measured_speeds(monkeypatch: pytest.MonkeyPatch):
    slow = Measurement(
        GENERATOR_WITH_EVALUATIONS, NAMES[0], "generator steps", (123456.0,), (0.5,), "short-term training"
    )
    benchmark = SimpleNamespace(measurements=[slow])
    assert_fits(lines(bench._rate_table(benchmark)))  # type: ignore[arg-type]
    hours = {name: {"short-term training": 1.234, "all of it": 12.0} for name in SEQUENCES}
    assert_fits(lines(bench._hours_table(hours, "paper")))


def test_sequences_of_gymnasium_ids_are_listed_by_title(in_80_columns: None, capsys: pytest.CaptureFixture[str]):
    assert main(["tasks"]) == 0
    assert "Road Runner, Boxing, James Bond, Pong, Atlantis, Q*bert" in capsys.readouterr().out
    assert find_sequence("catch,dodge").titles == ("Catch", "Dodge")

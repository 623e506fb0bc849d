"""What a run's result is made of: records written by hand, and stages that are dictionaries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from handmade import SETTINGS

from reaper.config.sparse_json import to_json
from reaper.results.continual_world import CONTINUAL_WORLD, MAX_SINGLE_AREA
from reaper.results.runs import LastWeights, read_run, rows_after, stages_of
from reaper.results.tidy import all_rows, tidy_rows
from reaper.storage.records import ContinuedFrom, RunRecord, StageEntry, TeacherSource

TASKS = ("catch", "dodge")
RECORD = RunRecord(
    name="RePR--catch-dodge--0",
    condition={"name": "RePR"},
    sequence="catch,dodge",
    tasks=TASKS,
    titles=("Catch", "Dodge"),
    num_actions=6,
    seed=4,
    command="",
    settings=to_json(SETTINGS),
    teachers=("t0", "t1"),
    generators=("g0", "g1"),
    memories=("m0", "m1"),
    evaluations=("e0", "e1"),
    singles=("s0", "s1"),
    random="r",
    stages={},
)
POLICY = replace(RECORD, teachers=(), generators=(), memories=(), policy="elsewhere.zip")


def scored(task: str, score: float, agent_steps: int = 0) -> dict[str, Any]:
    return {"task": task, "agent_steps": agent_steps, "scores": [score, score]}


class Stages:
    """A store whose stages are the documents given."""

    folder = Path("out")

    def __init__(self, **documents: dict[str, Any]) -> None:
        self.documents = documents

    def has(self, digest: str) -> bool:
        return digest in self.documents

    def stage(self, digest: str) -> SimpleNamespace:
        return SimpleNamespace(
            document=self.documents[digest].__getitem__,
            has=lambda name: name.removesuffix(".json") in self.documents[digest],
            provenance=lambda: SimpleNamespace(seconds=float(len(digest))),
        )


def store(**others: dict[str, Any]) -> Any:
    """Random play scores 0 and the teachers 10 and 20; after both tasks, the agent scores 8 and 15."""
    documents: dict[str, dict[str, Any]] = {
        "r": {"rows": [scored("catch", 0), scored("dodge", 0)]},
        "s0": {"rows": [scored("catch", 10)]},
        "s1": {"rows": [scored("dodge", 20)]},
        "e0": {"rows": [scored("catch", 9), scored("dodge", 1)]},
        "e1": {"rows": [scored("catch", 8), scored("dodge", 15)]},
        "t0": {"rows": [scored("catch", 5, 100)]},
        "t1": {"rows": [scored("dodge", 6, 200)]},
        "g0": {},
        "g1": {},
        "m0": {"rows": [], "memory": {"bytes": 100, "compressed_bytes": 40, "items": 7}},
        "m1": {"rows": [scored("dodge", 12, 300)], "memory": {"bytes": 200}},
    }
    return Stages(**{**documents, **others})


def test_what_stages_recorded_by_name():
    run = read_run(store(), RECORD)
    assert (run.name, run.sequence, run.tasks, run.titles, run.seed) == (
        "RePR", "catch,dodge", ["catch", "dodge"], ["Catch", "Dodge"], 4,
    )  # fmt: skip
    assert (run.memory_bytes, run.compressed_bytes, run.stored_items) == ([100, 200], [40, None], [7, None])
    assert [[row["agent_steps"] for row in phase.rows] for phase in run.phases] == [[100], [300]]
    assert [[row["agent_steps"] for row in rows] for rows in run.teacher_rows] == [[100], [200]]
    assert (run.learnt, run.missing, run.finished, run.consolidates) == (2, 0, True, True)
    assert run.seconds == dict.fromkeys(stages_of(RECORD), 2.0)
    assert run.single.tolist() == [[10, 10], [20, 20]]
    assert run.matrix.tolist() == [[1, 0.05], [0.8, 0.75]]  # at first it plays as its teacher, so 10, not 9
    assert run.final.tolist() == [[8, 8], [15, 15]]


def test_stages_that_are_not_finished_are_counted():
    some = store()
    for digest in ("e1", "m1", "g1"):
        del some.documents[digest]
    run = read_run(some, RECORD)
    assert (run.learnt, run.missing, run.finished) == (1, 3, False)
    assert (run.memory_bytes, [len(phase.rows) for phase in run.phases]) == ([100, None], [1, 0])
    assert np.isnan(run.scores).any(axis=2).tolist() == [[False, False], [True, True]]


def test_a_run_of_single_tasks_has_the_scores_of_its_teachers():
    alone = replace(RECORD, memories=(), evaluations=(), generators=())
    run = read_run(store(), alone)
    assert (run.consolidates, run.learnt, run.finished) == (False, 0, True)
    assert run.final.tolist() == [[10, 10], [20, 20]]
    assert list(tidy_rows(run)) == []


def test_a_policy_that_was_only_evaluated_knows_every_task():
    played = store(e0={"rows": [scored("catch", 7)]}, e1={"rows": [scored("dodge", 3)]})
    run = read_run(played, POLICY)
    assert (run.learnt, run.consolidates, run.missing, run.first) == (2, True, 0, 0)
    assert (run.memory_bytes, run.stored_items) == ([None, None], [None, None])
    assert [(phase.task, phase.agent_steps, phase.rows) for phase in run.phases] == [("catch", 0, []), ("dodge", 0, [])]
    assert run.scores[..., 0].tolist() == [[7, 3], [7, 3]]  # it does not change from task to task
    assert stages_of(POLICY) == ["e0", "e1"]


def test_a_first_agent_that_learnt_from_elsewhere_has_scores_and_a_phase_of_its_own():
    taught = replace(RECORD, sources={"catch": TeacherSource("agent.zip", "values", "t0")})
    own = store(m0={"rows": [scored("catch", 3, 50)], "memory": {"bytes": 100}})
    run = read_run(own, taught)
    assert [[row["agent_steps"] for row in phase.rows] for phase in run.phases] == [[50], [300]]
    assert [phase.agent_steps for phase in run.phases] == [SETTINGS.long_term.agent_steps] * 2
    assert run.scores[0, :, 0].tolist() == [9, 1]
    steps = {row["task"]: row["agent_steps"] for row in all_rows([run], 1.0) if row["condition"] == "single"}
    assert steps == {"catch": 0, "dodge": SETTINGS.short_term.agent_steps}


def test_a_first_agent_that_all_conditions_share_is_a_stage_of_the_run():
    stages = {"d": StageEntry("distil", ("t0",)), "m0": StageEntry("first memory", ("d",))}
    settings = replace(SETTINGS, short_term=replace(SETTINGS.short_term, network="residual"))
    shared = replace(RECORD, settings=to_json(settings), stages=stages)
    assert (shared.distilled, replace(shared, memories=()).distilled, RECORD.distilled) == ("d", None, None)
    assert stages_of(shared) == [*stages_of(RECORD), "d"]
    run = read_run(store(d={"rows": [scored("catch", 3, 50)]}), shared)
    assert (run.seconds["d"], run.missing) == (1.0, 0)
    assert [[row["agent_steps"] for row in phase.rows] for phase in run.phases] == [[50], [300]]
    assert read_run(store(), shared).missing == 1


def test_a_run_that_continues_keeps_the_first_evaluation_it_made():
    continued = replace(RECORD, continued=ContinuedFrom("elsewhere", "", 1))
    assert read_run(store(), continued).scores[0, :, 0].tolist() == [9, 1]


def test_the_first_row_is_that_of_single_for_the_first_task_only():
    rows = {"e0": [scored("catch", 9), scored("dodge", 1)], "s0": [scored("catch", 10)], "e1": [scored("catch", 8)]}
    assert rows_after(RECORD, 0, rows.__getitem__) == [scored("catch", 10), scored("dodge", 1)]
    assert rows_after(RECORD, 1, rows.__getitem__) == [scored("catch", 8)]
    # Without an evaluation of `single`, its own is shown; without its own, there is nothing yet.
    assert rows_after(RECORD, 0, {**rows, "s0": []}.__getitem__) == rows["e0"]
    assert rows_after(RECORD, 0, {**rows, "e0": []}.__getitem__) == []


def test_agents_with_their_last_weights_are_named():
    def best(by: str, windows: int) -> dict[str, Any]:
        return {"by": by, "windows": windows, "value": None}

    run = read_run(
        store(
            t0={"rows": [], "best_weights": best("score", 0)},
            t1={"rows": [], "best_weights": best("score", 1)},
            m1={"rows": [], "memory": {"bytes": 1}, "best_weights": best("loss", 0)},
        ),
        RECORD,
    )
    assert run.last_weights == [LastWeights("catch", False, True), LastWeights("dodge", True, False)]


def test_scores_without_a_spread_and_a_reference_are_not_normalised():
    run = read_run(store(s0={"rows": [scored("catch", 0)]}), RECORD)
    assert run.defined.tolist() == [False, True]
    assert run.no_better_than_random.tolist() == [True, False]
    unknown = store()
    del unknown.documents["s0"]
    run = read_run(unknown, RECORD)
    assert run.no_better_than_random.tolist() == [False, False]  # not evaluated yet
    final = [row for row in tidy_rows(run) if row["evaluation"] == "final" and row["task"] == "catch"]
    assert {(row["single_score"], row["random_score"], row["normalised_score"]) for row in final} == {(None, 0.0, None)}
    del unknown.documents["r"]
    assert not read_run(unknown, RECORD).no_better_than_random.any()


def test_references_that_runs_share_are_listed_once():
    runs = [read_run(store(), RECORD), read_run(store(), replace(RECORD, condition={"name": "no-reh"}))]
    rows = [row for row in all_rows(runs, 0.5) if row["condition"] in ("single", "random")]
    assert [(row["condition"], row["task"], row["episode"]) for row in rows] == [
        (condition, task, episode) for task in TASKS for condition in ("single", "random") for episode in (0, 1)
    ]


@pytest.mark.parametrize(
    ("score", "transfer"),
    [
        (20.0, (13 / 40 - 0.5) / 0.5),
        (2 * 20 * MAX_SINGLE_AREA, (13 / 40 - 0.99) / 0.01),
        (39.7, np.nan),
        (60.0, np.nan),
    ],
)
def test_room_for_transfer_ends_at_a_single_area_of_099(score: float, transfer: float):
    """The teacher of Dodge goes from random play, 0, to `score` in a straight line; 20 is normalised to 1. The agent
    goes from 1 to 12, so its area is 13/2 of 20."""
    run = read_run(store(t1={"rows": [scored("dodge", score, 10)]}), RECORD)
    assert CONTINUAL_WORLD["forward transfer"].by_task(run)[1] == pytest.approx(transfer, nan_ok=True)


def test_continual_world_of_a_run_that_continues():
    """What it knew before counts as learnt at its first known row; the first window is not its own."""
    continued = replace(RECORD, continued=ContinuedFrom("elsewhere", "", 1))
    run = read_run(store(), continued)
    assert CONTINUAL_WORLD["forgetting"].by_task(run) == pytest.approx([0.9 - 0.8, 0])
    transfer = CONTINUAL_WORLD["forward transfer"]
    assert np.isnan(transfer.by_task(run)).tolist() == [True, False]
    assert transfer.counted(run) == 1

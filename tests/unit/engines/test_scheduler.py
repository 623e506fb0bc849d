"""The scheduler: which stage is next, and what a failure means for the others."""

import pytest
from conftest import plan_tiny, run_plan

from reaper.engines.scheduler import Scheduler, critical_path, describe_error, first_cause
from reaper.errors import Diverged, ReaperError, StorageFailed, UserError
from reaper.storage.store import Store
from reaper.study.stages import Stage


def stage(name, *parents):
    return Stage(
        {"kind": "evaluate", "name": name, "parents": {parent.title: parent.digest for parent in parents}}, name
    )


#   a -> b -> c
#   d
A = stage("a")
B = stage("b", A)
C = stage("c", B)
D = stage("d")


@pytest.fixture
def scheduler(tmp_path):
    store, events = Store.open_for(tmp_path / "run", plan_tiny(["single"], "catch").header), []
    found = Scheduler([D, A, B, C], store, lambda stage, event: events.append((stage.title, event)))
    found.events = events
    yield found
    store.close()


def test_the_critical_path_counts_the_stages_that_wait_in_a_row():
    assert critical_path([D, A, B, C]) == {D.digest: 0, A.digest: 2, B.digest: 1, C.digest: 0}


def test_stages_with_the_longest_path_are_first(scheduler):
    assert [stage.title for stage in scheduler.waiting] == ["a", "b", "d", "c"]


def test_only_stages_with_finished_parents_are_handed_out(scheduler):
    assert [scheduler.take().title, scheduler.take().title] == ["a", "d"]
    assert scheduler.take() is None


def test_a_stage_that_another_process_runs_is_retried_later(scheduler, monkeypatch):
    taken = scheduler.take()
    scheduler.put_back(taken)
    assert scheduler.events[-1][1].name == "held"
    assert scheduler.take().title == "d"
    assert scheduler.take() is None
    monkeypatch.setattr("reaper.engines.scheduler.time.monotonic", lambda: 1e12)
    assert scheduler.take() is taken


@pytest.mark.parametrize("error", [Diverged("its loss is not finite"), ZeroDivisionError("a bug")])
def test_a_stage_that_fails_on_its_own_takes_only_its_descendants_with_it(scheduler, error):
    scheduler.waiting.remove(A)
    assert scheduler.failed(A, error)
    assert [stage.title for stage in scheduler.waiting] == ["d"]
    assert scheduler.failure is error
    assert scheduler.events[-1][1].others_continue


@pytest.mark.parametrize("error", [StorageFailed("no space is left"), UserError("a mistake"), KeyboardInterrupt()])
def test_an_error_that_concerns_all_stages_stops_them(scheduler, error):
    scheduler.waiting.remove(A)
    assert not scheduler.failed(A, error)
    assert len(scheduler.waiting) == 3
    assert scheduler.failure is None


def test_errors_are_one_line_with_an_exit_code():
    assert describe_error(Diverged("not finite")) == ("not finite", 70)
    assert describe_error(ValueError("two\nlines")) == ("ValueError: two lines", 1)
    assert describe_error(KeyboardInterrupt()) == ("stopped at once", 130)


def test_the_first_cause_is_reported_and_not_the_stops_that_follow():
    from reaper.errors import Stopped

    cause = StorageFailed("no space is left")
    assert first_cause(None, cause) is cause
    assert first_cause(cause, Stopped("stopped")) is cause
    assert first_cause(Stopped("stopped"), cause) is cause
    assert isinstance(first_cause(None, RuntimeError("killed")), ReaperError)


def test_finished_stages_are_reported_as_cached(tiny_run):
    events = []
    study = plan_tiny(["RePR", "no-reh"])
    run_plan(study, tiny_run, lambda stage, event: events.append(event.name))
    assert events == ["cached"] * len(study.stages)

"""Which stages are taken from elsewhere: what a stage lacks must not be needed by anything that is left to run."""

from pathlib import Path

import pytest

from reaper.study import reuse
from reaper.study.kinds.base import Stage
from reaper.study.reuse import choose_sources

SOURCES = [Path("a"), Path("b")]


def stage(kind, *parents):
    return Stage({"kind": kind, "parents": {str(i): parent.digest for i, parent in enumerate(parents)}}, kind)


_teacher = stage("learn")
_first = stage("consolidate", _teacher)
STAGES = {
    "teacher": _teacher,
    "first": _first,
    "second": stage("consolidate", _first),
    "scores": stage("evaluate", _first),
}


@pytest.fixture
def chosen(monkeypatch):
    """Given what each source holds, and the files that it lacks: where each stage comes from."""

    def choose(*held, finished=()):
        known = [{STAGES[name].digest: frozenset(lacks) for name, lacks in own.items()} for own in held]
        monkeypatch.setattr(reuse, "held_stages", lambda source: known[SOURCES.index(source)])
        done = [STAGES[name].digest for name in finished]
        found = choose_sources(list(STAGES.values()), SOURCES[: len(held)], done)
        return {name: str(found[each.digest]) for name, each in STAGES.items() if each.digest in found}

    return choose


def test_what_is_complete_is_taken_from_the_first_source_that_has_it(chosen):
    assert chosen({"teacher": ()}, {"teacher": (), "first": ()}) == {"teacher": "a", "first": "b"}
    assert chosen({"teacher": (), "first": ()}, finished=["teacher"]) == {"first": "a"}
    assert chosen({"teacher": ["states.safetensors"]}, {"teacher": ()}) == {"teacher": "b"}  # a complete one first


def test_a_stage_without_its_agent_is_not_taken_where_something_left_to_run_reads_it(chosen):
    assert chosen({"teacher": ["agent.safetensors"]}) == {}
    assert chosen({"teacher": ["agent.safetensors"], "first": ()}) == {"teacher": "a", "first": "a"}
    assert chosen({"teacher": ["agent.safetensors"]}, finished=["first"]) == {"teacher": "a"}


def test_an_evaluation_reads_the_agent_only(chosen):
    assert chosen({"first": ["retained.safetensors"]}, finished=["second"]) == {"first": "a"}
    assert chosen({"first": ["agent.safetensors"]}, finished=["second"]) == {}
    assert chosen({"first": ["retained.safetensors"]}, finished=["scores"]) == {}  # the second task continues from it
    assert chosen({"first": ["retained.safetensors"], "second": ()}) == {"first": "a", "second": "a"}


def test_pictures_are_read_by_no_stage(chosen):
    assert chosen({"first": ["states.safetensors"]}) == {"first": "a"}

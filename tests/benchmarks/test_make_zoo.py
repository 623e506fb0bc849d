"""benchmarks/make_zoo.py: an entry of the zoo, made from a finished run."""

from pathlib import Path

import pytest

import reaper
from reaper.storage.find import RunChoice
from reaper.storage.store import Store
from reaper.zoo import entries

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture
def make_zoo(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import make_zoo

    return make_zoo


def test_an_entry_is_made_from_a_finished_run(tiny_run, tmp_path, make_zoo):
    make_zoo.make(Store.open(tiny_run), "tiny", RunChoice("RePR"), folder=tmp_path, episodes=3)
    entry = entries(tmp_path)["tiny"]
    entry.check()
    assert entry.facts["tasks"] == ["catch", "dodge", "frog"]
    assert entry.facts["episodes"] == 3
    agent = reaper.load(entry.pack)
    assert set(entry.facts["scores"]) == set(agent.tasks) == set(entry.facts["single"])
    assert "| Catch |" in entry.card
    assert f"{entry.facts['bytes']:,} bytes" in entry.card


@pytest.mark.parametrize("name", entries())
def test_the_card_of_every_entry_is_up_to_date(name, make_zoo):
    entry = entries()[name]
    assert entry.card == make_zoo.card(name, entry.facts, reaper.load(entry.pack).context.settings)

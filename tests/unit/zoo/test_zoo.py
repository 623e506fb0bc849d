"""The zoo: every entry opens, is the pack that was measured, and plays as its card says."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import reaper
from reaper.cli.main import main
from reaper.errors import UserError
from reaper.storage.files import write_checksummed
from reaper.storage.pack_file import Pack
from reaper.zoo import Entry, entries, pretrained

MAX_BYTES = 12 << 20  # bytes


@pytest.mark.parametrize("name", entries())
def test_every_entry_is_the_pack_that_was_measured_and_fits(name):
    entry = pretrained(name)
    entry.check()
    assert entry.pack.stat().st_size == entry.facts["bytes"] <= MAX_BYTES
    with Pack(entry.pack) as pack:  # verifies its checksum, and every name and size
        assert pack.kind == "weights"
    agent = reaper.load(f"pretrained:{name}")
    assert list(agent.tasks) == entry.facts["tasks"]
    assert all(t.dtype.is_floating_point and t.element_size() == 4 for t in agent.memory.agent.values())
    for text in (entry.card.splitlines()[0], entry.facts["command"], f"{entry.facts['bytes']:,} bytes"):
        assert text in entry.card
    assert set(entry.facts["scores"]) == set(agent.tasks)


def test_the_arcade_entry_plays_as_its_card_says():
    facts = pretrained("arcade-3").facts
    agent = reaper.load("pretrained:arcade-3")
    for task in agent.tasks:
        scores = [list(agent.play(task, seed=seed))[-1][1] for seed in range(4)]
        published, chance = facts["scores"][task], facts["random"][task]
        # The mean of four episodes lies within three standard errors of the card's.
        assert abs(np.mean(scores) - published["mean"]) <= 3 * published["deviation"] / np.sqrt(4)
        assert np.mean(scores) > chance["mean"] + 3 * chance["deviation"]


def test_a_pretrained_agent_plays_and_is_recorded(tmp_path, capsys):
    video = tmp_path / "catch.gif"
    words = ["play", "--pretrained", "arcade-3", "--task", "Catch", "--episodes", "1", "--video", str(video)]
    assert main(words) == 0
    assert video.stat().st_size > 1000
    assert "Catch, episode 1:" in capsys.readouterr().out


@pytest.mark.long
def test_the_atari_entry_boxes_as_its_card_says_and_is_recorded_in_colour(tmp_path, capsys):
    video = tmp_path / "boxing.gif"
    words = ["play", "--pretrained", "atari-3", "--task", "Boxing", "--episodes", "1", "--video", str(video)]
    assert main(words) == 0
    score = float(capsys.readouterr().out.rpartition(": ")[2])
    published = pretrained("atari-3").facts["scores"]["ALE/Boxing-v5"]
    assert abs(score - published["mean"]) <= 4 * published["deviation"]  # random play is at zero
    with Image.open(video) as picture:
        assert picture.n_frames > 300  # a game ends early once somebody has 100 points
        _, green, blue = (np.asarray(channel, float) for channel in picture.convert("RGB").split())
        assert np.abs(green - blue).max() > 20


def test_the_list_and_the_cards(capsys):
    assert main(["zoo"]) == 0
    assert "arcade-3" in capsys.readouterr().out
    assert main(["zoo", "arcade-3"]) == 0
    assert capsys.readouterr().out == pretrained("arcade-3").card
    assert main(["zoo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["tasks"] == ["catch", "dodge", "shooter"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["play", "--pretrained", "arcade3", "--task", "catch"], "did you mean 'arcade-3'?"),
        (["play", "pretrained:atari", "--task", "catch"], "unknown pretrained agent 'atari'"),
        (["play", "--task", "catch"], "name the agent"),
        (["play", "somewhere", "--pretrained", "arcade-3", "--task", "catch"], "name the agent"),
        (["zoo", "nothing"], "unknown pretrained agent 'nothing'"),
    ],
)
def test_mistakes_are_one_line(words, message, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_another_pack_under_the_same_name_is_refused(tmp_path):
    facts = pretrained("arcade-3").facts
    pack = tmp_path / "arcade-3.reaper"
    shutil.copy(pretrained("arcade-3").pack, pack)
    Entry("arcade-3", tmp_path, facts).check()
    pack.write_bytes(pack.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match="not the pack whose scores were measured"):
        Entry("arcade-3", tmp_path, facts).check()
    pack.unlink()
    with pytest.raises(UserError, match="is missing"):
        Entry("arcade-3", tmp_path, facts).check()
    write_checksummed(tmp_path / "odd.json", {"sha256": "0"})
    with pytest.raises(UserError, match="does not describe a pack"):
        entries(tmp_path)

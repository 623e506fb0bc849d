"""Dreams and films: what the report plays and measures by itself, on real though tiny runs."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reaper.errors import ReaperError, UserError
from reaper.report import generated_states, real_states, rollouts, sequence_sections, videos
from reaper.report.cache import ReportCache, decode_array, encode_array
from reaper.report.generated_states import TaskClassifier, nearest_states, read_generated_states
from reaper.report.page import write_page
from reaper.report.rollouts import read_rollout_video, read_rollout_videos
from reaper.report.scores import gather_scores
from reaper.report.state_images import animation, caption, for_page, share_table
from reaper.results.runs import read_results
from reaper.storage.store import Store


@pytest.fixture
def store(tiny_run, tmp_path: Path) -> Store:
    return Store.open(shutil.copytree(tiny_run, tmp_path / "run"))


def condition_of(store: Store, name: str):
    (scores,) = gather_scores(read_results(store))
    return next(condition for condition in scores.conditions if condition.name == name)


def test_the_nearest_state_by_hand():
    real = np.zeros((3, 1, 2, 2), np.uint8)
    real[1] = 100
    real[2] = 200
    asked = real[[1, 0]].copy()
    asked[1, 0] = [[90, 90], [100, 120]]  # differences to the second: 10, 10, 0, 20
    distances, nearest = nearest_states(asked, real)
    assert nearest.tolist() == [1, 1]
    assert distances.tolist() == pytest.approx([0, ((100 + 100 + 0 + 400) / 4) ** 0.5])


def test_the_judge_tells_tasks_apart_and_is_tested_on_other_states():
    random = np.random.default_rng(0)
    dark, light = (random.integers(low, low + 90, (60, 2, 8, 8)).astype(np.uint8) for low in (0, 120))
    judge = TaskClassifier([dark[:40], light[:40]])
    assert judge(dark[40:]).tolist() == [0] * 20
    assert judge(light[40:]).tolist() == [1] * 20


def test_dreams_of_a_run_are_examined_once(store, tmp_path, monkeypatch):
    condition = condition_of(store, "RePR")
    kept = ReportCache(tmp_path / "kept")
    found = read_generated_states(store, condition, kept)
    kept.settle()
    assert found
    assert (found.titles, found.stages) == (["Catch", "Dodge", "Frog"], ["Catch", "Dodge", "Frog"])
    assert found.accuracy > 0.95, "each game has a background of its own"
    assert found.shares.shape == (3, 3)
    assert found.shares.sum(axis=1) == pytest.approx(1)
    assert sum(len(some) > 0 for some in found.dreamt) == sum(found.shares[-1] > 0)
    assert found.closest.shape == found.neighbours.shape
    assert found.remarks == []
    assert "%" in share_table(found).rows[0][1]
    assert for_page(found).count("<img") == len(found.titles) + sum(len(some) > 0 for some in found.dreamt) + 2

    def never(*_: object) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr(generated_states, "read_real_states", never)
    again = read_generated_states(store, condition, ReportCache(tmp_path / "kept"))
    assert again
    assert caption(again) == caption(found)
    assert read_generated_states(store, condition_of(store, "no-reh"), ReportCache(tmp_path / "kept")) is None


def test_copies_would_be_seen(store, tmp_path, monkeypatch):
    """A generator that gives back real states is at a distance of zero from them."""
    condition = condition_of(store, "RePR")
    real, _ = real_states.read_real_states(store, condition.runs[0])
    assert real[0]
    monkeypatch.setattr(generated_states, "_dream", lambda *_: real[0].train[:50])
    found = read_generated_states(store, condition, ReportCache(tmp_path / "kept"))
    assert found
    assert found.distance == 0
    np.testing.assert_array_equal(found.closest, found.neighbours)
    assert found.shares[:, 0].min() > 0.95, "and all of them are of that task"


def test_a_task_that_cannot_be_played_here_is_said_to_be_so(store, tmp_path, monkeypatch):
    def missing(name: str) -> None:
        raise UserError(f"{name} needs a package")

    monkeypatch.setattr(real_states, "find_task", missing)
    found = read_generated_states(store, condition_of(store, "RePR"), ReportCache(tmp_path / "kept"))
    assert found
    assert "Catch could not be played here (catch needs a package)" in caption(found)
    monkeypatch.setattr(rollouts, "load", lambda path: missing("catch"))
    made, remarks = read_rollout_videos(store, condition_of(store, "RePR").runs, ReportCache(tmp_path / "kept"), 10**6)
    assert (made, remarks) == ([], ["RePR could not be filmed here: catch needs a package."])


def test_what_is_kept_is_checked_and_swept(tmp_path):
    kept = ReportCache(tmp_path)
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    value = kept.get("thing", {"of": 1}, lambda: {"array": encode_array(array)})
    np.testing.assert_array_equal(decode_array(value["array"]), array)
    assert list(tmp_path.iterdir()) == [], "nothing before all of the report is made"
    kept.settle()
    assert ReportCache(tmp_path).get("thing", {"of": 1}, lambda: {"array": "another"}) == value
    (path,) = tmp_path.glob("thing-*.json")
    path.write_text(path.read_text().replace('"shape"', '"forged"'))
    assert ReportCache(tmp_path).get("thing", {"of": 1}, lambda: {"made": "again"}) == {"made": "again"}
    other = ReportCache(tmp_path)
    other.get("thing", {"of": 2}, lambda: {"more": 1})
    other.settle()
    assert len(list(tmp_path.iterdir())) == 1, "what this report did not ask for is gone"


def test_an_animation_shows_every_frame_of_a_state():
    some = np.zeros((3, 4, 5, 5), np.uint8)
    some[0] = np.arange(4)[:, None, None]  # equal frames would be one that is shown for longer
    some[1, 2] = 77
    with Image.open(io.BytesIO(animation(some))) as picture:
        assert (picture.n_frames, picture.size) == (4, (3 * 6 - 1, 5))
        picture.seek(2)
        shown = picture.convert("LA")
        assert shown.getpixel((8, 2)) == (77, 255)
        assert shown.getpixel((5, 2))[1] == 0, "see-through between states"


@pytest.mark.parametrize("with_ffmpeg", [True, False])
def test_a_film_is_made_once_and_stays_small(store, tmp_path, monkeypatch, with_ffmpeg):
    if with_ffmpeg and not videos.encoder():
        pytest.skip("needs ffmpeg: pip install 'reaper-rl[video]'")
    if not with_ffmpeg:
        monkeypatch.setattr(rollouts, "encoder", lambda: None)
    run = condition_of(store, "RePR").runs[0]
    kept = ReportCache(tmp_path / "kept")
    film = read_rollout_video(store, run, kept, 10**6)
    kept.settle()
    assert film
    assert film.kind == ("video/mp4" if with_ffmpeg else "image/webp")
    assert 1_000 < len(film.content) < 10**6
    assert film.html.count("after ") == 3 + 1
    monkeypatch.setattr(rollouts, "load", None)
    assert read_rollout_video(store, run, ReportCache(tmp_path / "kept"), 10**6) == film


def test_a_film_too_large_is_cut_short(store):
    pictures = [Image.effect_noise((64, 64), 90) for _ in range(120)]
    whole = rollouts._encoded(pictures, 10**9)
    assert len(rollouts._encoded(pictures, len(whole) - 1)) < 0.7 * len(whole)


def test_kept_values_that_do_not_fit_are_refused_in_one_line(store, tmp_path):
    kept = ReportCache(tmp_path / "kept")
    kept.get("dreams", _inputs(store), lambda: {"shares": [[1.0]], "tasks": "forged"})
    with pytest.raises(ReaperError, match="no report wrote"):
        read_generated_states(store, condition_of(store, "RePR"), kept)


def _inputs(store: Store) -> dict[str, object]:
    run = condition_of(store, "RePR").runs[0]
    roles = {role: run.record.of_role(role) for role in ("teachers", "memories")}
    return {"format": generated_states.FORMAT, **roles}


def test_films_can_be_left_out(store, tmp_path, monkeypatch):
    monkeypatch.setattr(sequence_sections, "render_figure", lambda *_: [])  # drawing would be most of the time
    monkeypatch.setattr(rollouts, "load", None)  # nobody plays
    text = write_page(store, tmp_path / "page.html", videos=False).read_text()
    assert "Watch it" not in text
    assert "Dreams" in text

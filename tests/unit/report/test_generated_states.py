"""Generated states and videos of tiny runs."""

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
from reaper.report.state_images import animation, caption, html_states, share_table
from reaper.results.runs import read_results
from reaper.storage.store import Store


@pytest.fixture
def store(tiny_run, tmp_path: Path) -> Store:
    return Store.open(shutil.copytree(tiny_run, tmp_path / "run"))


def condition_of(store: Store, name: str):
    (scores,) = gather_scores(read_results(store))
    return next(condition for condition in scores.conditions if condition.name == name)


def test_nearest_state_by_hand():
    real = np.zeros((3, 1, 2, 2), np.uint8)
    real[1] = 100
    real[2] = 200
    states = real[[1, 0]].copy()
    states[1, 0] = [[90, 90], [100, 120]]  # differences to the second: 10, 10, 0, 20
    distances, nearest = nearest_states(states, real)
    assert nearest.tolist() == [1, 1]
    assert distances.tolist() == pytest.approx([0, ((100 + 100 + 0 + 400) / 4) ** 0.5])


def test_classifier_separates_tasks_on_held_out_states():
    random = np.random.default_rng(0)
    dark, light = (random.integers(low, low + 90, (60, 2, 8, 8)).astype(np.uint8) for low in (0, 120))
    classify = TaskClassifier([dark[:40], light[:40]])
    assert classify(dark[40:]).tolist() == [0] * 20
    assert classify(light[40:]).tolist() == [1] * 20


def test_generated_states_are_measured_once(store, tmp_path, monkeypatch):
    condition = condition_of(store, "RePR")
    cache = ReportCache(tmp_path / "cache")
    found = read_generated_states(store, condition, cache)
    cache.commit()
    assert found
    assert (found.titles, found.stages) == (["Catch", "Dodge", "Frog"], ["Catch", "Dodge", "Frog"])
    assert found.accuracy > 0.95, "each task has its own background"
    assert found.shares.shape == (3, 3)
    assert found.shares.sum(axis=1) == pytest.approx(1)
    assert sum(len(some) > 0 for some in found.generated) == sum(found.shares[-1] > 0)
    assert found.closest.shape == found.neighbours.shape
    assert found.remarks == []
    assert "%" in share_table(found).rows[0][1]
    assert html_states(found).count("<img") == len(found.titles) + sum(len(some) > 0 for some in found.generated) + 2

    def never(*_: object) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr(generated_states, "read_real_states", never)
    again = read_generated_states(store, condition, ReportCache(tmp_path / "cache"))
    assert again
    assert caption(again) == caption(found)
    assert read_generated_states(store, condition_of(store, "no-reh"), ReportCache(tmp_path / "cache")) is None


def test_copies_are_detected(store, tmp_path, monkeypatch):
    """A generator that returns real states has a distance of zero."""
    condition = condition_of(store, "RePR")
    real, _ = real_states.read_real_states(store, condition.runs[0])
    assert real[0]
    monkeypatch.setattr(generated_states, "_sample", lambda *_: real[0].train[:50])
    found = read_generated_states(store, condition, ReportCache(tmp_path / "cache"))
    assert found
    assert found.distance == 0
    np.testing.assert_array_equal(found.closest, found.neighbours)
    assert found.shares[:, 0].min() > 0.95, "and all of them belong to that task"


def test_tasks_that_cannot_be_played_are_reported(store, tmp_path, monkeypatch):
    def missing(name: str) -> None:
        raise UserError(f"{name} needs a package")

    monkeypatch.setattr(real_states, "find_task", missing)
    found = read_generated_states(store, condition_of(store, "RePR"), ReportCache(tmp_path / "cache"))
    assert found
    assert "Catch could not be played here (catch needs a package)" in caption(found)
    monkeypatch.setattr(rollouts, "load", lambda path: missing("catch"))
    videos_made, remarks = read_rollout_videos(
        store, condition_of(store, "RePR").runs, ReportCache(tmp_path / "cache"), 10**6
    )
    assert (videos_made, remarks) == ([], ["No video of RePR: catch needs a package."])


def test_cache_checks_its_files_and_deletes_unused_ones(tmp_path):
    cache = ReportCache(tmp_path)
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    value = cache.get("thing", {"of": 1}, lambda: {"array": encode_array(array)})
    np.testing.assert_array_equal(decode_array(value["array"]), array)
    assert list(tmp_path.iterdir()) == [], "nothing is written before the report is complete"
    cache.commit()
    assert ReportCache(tmp_path).get("thing", {"of": 1}, lambda: {"array": "another"}) == value
    (path,) = tmp_path.glob("thing-*.json")
    path.write_text(path.read_text().replace('"shape"', '"forged"'))
    assert ReportCache(tmp_path).get("thing", {"of": 1}, lambda: {"made": "again"}) == {"made": "again"}
    other = ReportCache(tmp_path)
    other.get("thing", {"of": 2}, lambda: {"more": 1})
    other.commit()
    assert len(list(tmp_path.iterdir())) == 1, "values that this report did not use are deleted"


def test_animation_has_every_frame_of_a_state():
    some = np.zeros((3, 4, 5, 5), np.uint8)
    some[0] = np.arange(4)[:, None, None]  # equal frames would be merged into one
    some[1, 2] = 77
    with Image.open(io.BytesIO(animation(some))) as image:
        assert (image.n_frames, image.size) == (4, (3 * 6 - 1, 5))
        image.seek(2)
        shown = image.convert("LA")
        assert shown.getpixel((8, 2)) == (77, 255)
        assert shown.getpixel((5, 2))[1] == 0, "transparent between states"


@pytest.mark.parametrize("with_ffmpeg", [True, False])
def test_video_is_made_once_and_stays_small(store, tmp_path, monkeypatch, with_ffmpeg):
    if with_ffmpeg and not videos.encoder():
        pytest.skip("needs ffmpeg: pip install 'reaper-rl[video]'")
    if not with_ffmpeg:
        monkeypatch.setattr(rollouts, "encoder", lambda: None)
    run = condition_of(store, "RePR").runs[0]
    cache = ReportCache(tmp_path / "cache")
    video = read_rollout_video(store, run, cache, 10**6)
    cache.commit()
    assert video
    assert video.kind == ("video/mp4" if with_ffmpeg else "image/webp")
    assert 1_000 < len(video.content) < 10**6
    assert video.html.count("after ") == 3 + 1
    monkeypatch.setattr(rollouts, "load", None)
    assert read_rollout_video(store, run, ReportCache(tmp_path / "cache"), 10**6) == video


def test_large_video_is_shortened(store):
    images = [Image.effect_noise((64, 64), 90) for _ in range(120)]
    whole = rollouts._encoded(images, 10**9)
    assert len(rollouts._encoded(images, len(whole) - 1)) < 0.7 * len(whole)


def test_cached_values_of_wrong_shape_are_refused_in_one_line(store, tmp_path):
    cache = ReportCache(tmp_path / "cache")
    cache.get("generated-states", _inputs(store), lambda: {"shares": [[1.0]], "tasks": "forged"})
    with pytest.raises(ReaperError, match="no report wrote"):
        read_generated_states(store, condition_of(store, "RePR"), cache)


def _inputs(store: Store) -> dict[str, object]:
    run = condition_of(store, "RePR").runs[0]
    roles = {role: run.record.of_role(role) for role in ("teachers", "memories")}
    return {"format": generated_states.FORMAT, **roles}


def test_videos_can_be_left_out(store, tmp_path, monkeypatch):
    monkeypatch.setattr(sequence_sections, "render_figure", lambda *_: [])  # drawing would take most of the time
    monkeypatch.setattr(rollouts, "load", None)  # fails if anything is played
    text = write_page(store, tmp_path / "page.html", videos=False).read_text()
    assert "<h3>Videos</h3>" not in text
    assert "<h3>Generated states</h3>" in text

"""The curves that a shrunk study logs to TensorBoard and wandb; no result depends on them."""

import io
import json
import os
import shutil
import signal
import sys
import types

import numpy as np
import pytest
from conftest import TINY, plan_tiny, run_plan, run_tiny
from curves import read_curves
from PIL import Image

from reaper.cli.main import main
from reaper.errors import Diverged, Stopped, UserError
from reaper.monitoring.event_files import PATTERN, CurveFile, read_events, scalar_value, write_events
from reaper.monitoring.heartbeat import LOST_ERROR, Heartbeat
from reaper.monitoring.status import StatusReader
from reaper.progress import CurvePoints, PhaseProgress, Remark, StageFinished
from reaper.results.runs import read_results
from reaper.storage.store import Store


def add(curves, step, **values):
    curves.add(step, [scalar_value(tag.replace("_", "/"), value) for tag, value in values.items()])


def points(folder):
    (path,) = folder.glob(PATTERN)
    return [(event.step, v.tag, v.simple_value) for event in read_events(path) for v in event.summary.value]


# -- event files


def test_points_are_read_back_as_written(tmp_path):
    curves = CurveFile(tmp_path / "a", "r")
    add(curves, 10, training_loss=0.5, training_score=-3.0)
    add(curves, 20, training_loss=0.25)
    assert points(tmp_path / "a") == [
        (10, "training/loss", 0.5),
        (10, "training/score", -3.0),
        (20, "training/loss", 0.25),
    ]


def test_points_beyond_a_checkpoint_are_removed(tmp_path):
    curves = CurveFile(tmp_path / "a", "first")
    for step in (10, 20, 30):
        add(curves, step, training_loss=float(step), generator_loss=float(step))
    with curves.path.open("ab") as file:
        file.write(b"\x18\0\0\0\0\0\0\0 killed while writing")
    resumed = CurveFile(tmp_path / "a", "second")
    resumed.truncate(["training"], 20)
    add(resumed, 20, training_loss=-1.0)  # already in the file
    add(resumed, 30, training_loss=3.0)
    found = points(tmp_path / "a")
    assert [(step, value) for step, tag, value in found if tag == "training/loss"] == [
        (10, 10.0),
        (20, 20.0),
        (30, 3.0),
    ]
    assert [step for step, tag, _ in found if tag == "generator/loss"] == [10, 20, 30]
    assert [path.name.split(".")[4] for path in (tmp_path / "a").iterdir()] == ["second"]


def test_files_equal_those_of_tensorboardx(tmp_path):
    """The writer of tensorboardX and ours give the same bytes for the same event."""
    from tensorboardX.record_writer import RecordWriter

    curves = CurveFile(tmp_path / "a", "r")
    add(curves, 7, x=1.5)
    events = list(read_events(curves.path))
    writer = RecordWriter(str(tmp_path / "theirs"))
    for event in events:
        writer.write(event.SerializeToString())
    writer.close()
    assert len(events) == 2
    assert (tmp_path / "theirs").read_bytes() == curves.path.read_bytes()


# -- a study


def test_a_study_logs_every_curve(tiny_run):
    found = read_curves(tiny_run)
    tags = {place.split("/")[2][:-9]: set(curves) for place, curves in found.items() if "/stages/" in place}
    training = {f"training/{name}" for name in ("score", "loss", "epsilon", "steps_per_second")}
    assert training | {"evaluation/dodge", "states/real"} <= tags["learn-dodge-seed-0"]
    adversarial = {"generator/discriminator_loss", "generator/generator_loss", "generator/steps_per_second"}
    evaluations = {"evaluation/catch", "evaluation/dodge"}
    repr_tags = training | adversarial | evaluations | {"training/alpha", "states/generated"}
    assert repr_tags <= tags["RePR-consolidate-dodge-seed-0"]
    assert "training/alpha" not in tags["no-reh-consolidate-dodge-seed-0"]  # no distillation, no alpha
    (stage,) = [curves for place, curves in found.items() if "learn-catch" in place]
    assert max(stage["training/epsilon"]) == TINY["short-term.agent-steps"]
    assert set(stage["evaluation/catch"]) == {120, 240}  # the evaluation interval
    with Image.open(io.BytesIO(stage["states/real"][240])) as image:
        assert len(image.getcolors(1 << 16)) > 2


def test_images_that_a_killed_process_did_not_add_are_added_at_the_next_start(tiny_run, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(tiny_run, out)
    before, folders = read_curves(out), list((out / "tensorboard" / "stages").iterdir())
    with_images = [
        folder for folder in folders if any("states/" in tag for tag in before[str(folder.relative_to(out))])
    ]
    for folder in with_images[1:]:  # the first stage keeps its images
        (path,) = folder.glob(PATTERN)
        _, *events = read_events(path)
        write_events(path, [event for event in events if not event.summary.value[0].tag.startswith("states/")])
    assert read_curves(out) != before
    files = {path: path.stat().st_mtime_ns for folder in set(folders) - {*with_images[1:]} for path in folder.iterdir()}
    run_tiny(out, ["RePR", "no-reh"])
    assert read_curves(out) == before
    assert {path: path.stat().st_mtime_ns for path in files} == files  # nothing else was touched


def test_the_score_matrix_equals_that_of_the_results(tiny_run):
    found = read_curves(tiny_run)
    for result in read_results(Store.open(tiny_run)):
        curves = found[f"tensorboard/runs/{result.record.name}"]
        for j, task in enumerate(result.tasks):
            logged = [curves[f"score/{task}"][k + 1] for k in range(3)]
            np.testing.assert_allclose(logged, result.scores.mean(axis=2)[:, j], rtol=1e-6)
            rows = [row for phase in result.phases for row in phase.rows if row["task"] == task]
            assert list(curves[f"curve/{task}"].values()) == pytest.approx([np.mean(row["scores"]) for row in rows])
        with Image.open(io.BytesIO(curves["score_matrix"][3])) as image:
            assert image.width > image.height > 200


def test_no_byte_of_a_stage_depends_on_the_curves(tmp_path):
    study = plan_tiny(["RePR"], "catch,dodge")
    for name, tensorboard in (("with", True), ("without", False)):
        run_plan(study, tmp_path / name, lambda stage, event: None, tensorboard=tensorboard)
    assert (tmp_path / "with" / "tensorboard").exists()
    assert not (tmp_path / "without" / "tensorboard").exists()
    files = [path.relative_to(tmp_path / "with") for path in (tmp_path / "with" / "stages").rglob("*.*")]
    assert len(files) > 20
    for file in files:
        if file.name != "provenance.json":
            assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes(), file


def test_a_disk_error_of_curves_or_heartbeat_is_reported_once_and_the_run_continues(tmp_path):
    out, events = tmp_path / "out", []
    out.mkdir()
    study = plan_tiny(["no-reh"], "catch")
    Store.open_for(out, study.header).close()
    (out / "tensorboard").write_text("a file where the folder should be")
    (out / "live").write_text("the same")
    store = run_plan(study, out, lambda stage, event: events.append(event))
    remarks = [event.text for event in events if isinstance(event, Remark)]
    assert len(remarks) == 2
    assert "TensorBoard curves" in remarks[0] or "TensorBoard curves" in remarks[1]
    assert all(result.finished for result in read_results(store))


# -- heartbeat


def test_a_stage_has_a_live_file_while_it_runs_and_only_then(tmp_path):
    out, seen = tmp_path / "out", []

    def read_states(stage, event):
        if isinstance(event, CurvePoints) and "training/epsilon" in event.values:
            seen.extend(stage.state for stage in StatusReader(out).read().stages if stage.state != "waiting")

    study = plan_tiny(["single"], "catch")
    run_plan(study, out, read_states)
    assert set(seen) == {"running"}
    assert list((out / "live").iterdir()) == []


def test_a_failed_stage_is_remembered_until_it_is_finished(tmp_path):
    out = tmp_path / "out"
    overrides = {**TINY, "optimiser.learning-rate": 1e30}
    study = plan_tiny(["single"], "catch", overrides=overrides)
    with pytest.raises(Diverged):
        run_plan(study, out, lambda stage, event: None)
    (failed,) = [stage for stage in StatusReader(out).read().stages if stage.state == "failed"]
    assert failed.live.exit_code == 70
    assert "the loss of learn Catch became" in failed.live.error
    assert main(["verify", str(out)]) == 0  # a failed stage is no damage
    assert main(["export", str(out), str(tmp_path / "pack")]) == 0
    # A later attempt still reports it, until the stage is finished.
    stage, heartbeat = study.stages[0], Heartbeat(Store.open(out), lambda text: None)
    heartbeat(stage, PhaseProgress("learn", "agent steps", 1, 2))
    record = json.loads((heartbeat.folder / f"{stage.digest}.json").read_text())
    assert (record["state"], record["earlier_error"]) == ("running", failed.live.error)
    heartbeat(stage, StageFinished())
    heartbeat(stage, PhaseProgress("learn", "agent steps", 2, 2))  # a late event
    assert not (heartbeat.folder / f"{stage.digest}.json").exists()


def test_a_stop_and_a_killed_process_have_different_states(tmp_path):
    out = tmp_path / "out"

    def stop_when_learning(stage, event):
        if isinstance(event, PhaseProgress) and event.done:
            os.kill(os.getpid(), signal.SIGTERM)

    study = plan_tiny(["single"], "catch")
    with pytest.raises(Stopped):
        run_plan(study, out, stop_when_learning)
    (path,) = (out / "live").iterdir()
    assert json.loads(path.read_text())["state"] == "stopped"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "running"}))  # as a kill would leave it
    Heartbeat(Store.open(out), lambda text: None).mark_lost()
    (stage,) = [stage for stage in StatusReader(out).read().stages if stage.state != "waiting"]
    assert (stage.state, stage.live.error) == ("lost", LOST_ERROR)
    run_plan(study, out, lambda stage, event: None)
    assert StatusReader(out).read().finished


# -- wandb


class FakeRun:
    def __init__(self, **options):
        self.options, self.logged, self.ended = options, [], None

    def define_metric(self, name, step_metric=None, hidden=False):
        assert "*" not in name

    def log(self, values):
        self.logged.append(values)

    def finish(self, exit_code):
        self.ended = exit_code


@pytest.fixture
def fake_wandb(monkeypatch):
    module = types.ModuleType("wandb")
    module.runs = []
    module.Settings = dict
    module.Image = lambda image: ("image", image.size)
    module.Table = lambda columns, data: {"columns": columns, "data": data}

    def init(**options):
        module.runs.append(FakeRun(**options))
        return module.runs[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb_gets_the_same_curves_images_and_scores(tmp_path, fake_wandb):
    study = plan_tiny(["no-reh"], "catch,dodge")
    store = run_plan(study, tmp_path / "out", lambda stage, event: None, wandb=True)
    (run,) = fake_wandb.runs
    assert run.ended == 0
    assert run.options["dir"] == str(tmp_path / "out")
    sent = {}
    for values in run.logged:
        for tag, value in values.items():
            group = tag.rpartition("/")[0]
            if isinstance(value, float):
                sent.setdefault(tag, {})[values[f"{group}/step"]] = value
    for folder, curves in read_curves(tmp_path / "out").items():
        for tag, found in curves.items():
            if isinstance(next(iter(found.values())), float):
                assert sent[f"{folder.split('/')[2]}/{tag}"] == pytest.approx(found, rel=1e-5), tag
    tables = [values["scores"] for values in run.logged if "scores" in values]
    (result,) = read_results(store)
    cells = {(row[3], row[4]): row[5] for row in tables[-1]["data"]}
    assert len(cells) == 4
    assert cells["dodge", "catch"] == result.scores[1, 0].mean()
    images = [tag for values in run.logged for tag, value in values.items() if isinstance(value, tuple)]
    assert any(tag.endswith("states/real") for tag in images)
    assert any(tag.endswith("matrix/scores") for tag in images)


def test_a_wandb_error_does_not_stop_the_run(tmp_path, fake_wandb, monkeypatch):
    def broken(self, values):
        raise RuntimeError("the network\nis down")

    monkeypatch.setattr(FakeRun, "log", broken)
    events = []
    study = plan_tiny(["single"], "catch")
    run_plan(study, tmp_path / "out", lambda stage, event: events.append(event), wandb=True)
    (text,) = [event.text for event in events if isinstance(event, Remark)]
    assert "wandb curves" in text
    assert "the network is down" in text


def test_wandb_that_does_not_start_is_a_one_line_error(tmp_path, fake_wandb):
    def init(**options):
        raise RuntimeError("api_key not configured")

    fake_wandb.init = init
    study = plan_tiny(["single"], "catch")
    with pytest.raises(UserError, match="WANDB_MODE=offline"):
        run_plan(study, tmp_path / "out", lambda stage, event: None, wandb=True)


def test_without_wandb_the_error_names_the_pip_command(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["run", "single", "--tasks", "catch", "--wandb", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'reaper-rl[wandb]'" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()

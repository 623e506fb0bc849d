"""The command line: bad input is a one-line error with exit code 2, and nothing is written."""

import json
import re
import shutil

import pytest
from conftest import run_args

from reaper.cli.main import main

BAD = [
    (["run", "RePRR"], "did you mean 'RePR'"),
    (["run", "RePR", "--tasks", "catchh"], "did you mean 'catch'"),
    (["run", "RePR", "--tasks", "catch,catch"], "catch occurs twice; a task may occur only once"),
    (["run", "RePR", "--tasks", "arcade-3,catch"], "catch occurs twice (arcade-3 is catch, dodge, shooter)"),
    (["run", "RePR", "--tasks", "arcade-3,catchh"], "did you mean 'catch'"),
    (["run", "RePR", "--checkpoint-every", "9" * 400], "--checkpoint-every takes a time"),
    (["run", "RePR", "--out", "x" * 300], "File name too long"),
    (["run", "RePR", "--workers=--"], "needs a value"),
    (["run", "RePR", "--workers", "9" * 400], "--workers must lie between 1 and 10,000"),
    (["bench", "--seconds", "nan"], "--seconds must be a finite number above 0, not nan"),
    (["bench", "--seconds", "inf"], "--seconds must be a finite number above 0, not inf"),
    (["bench", "--repeats", "0"], "--repeats must be at least 1, not 0"),
    (["bench", "--json", "."], "'.' is a folder; give the name of a file"),
    (["play", "--pretrained", "arcade-3", "--task", "catch", "--video", "a.avi"], "writes .gif or .mp4 files"),
    (["run", "RePR", "--tasks", "catch,ALE/Pong-v5"], "one network cannot see both"),
    (["run", "RePR", "--fraction", "0"], "--fraction must be above 0"),
    (["run", "RePR", "--fraction", "1.5"], "at most 1"),
    (["run", "RePR", "--fraction", "nan"], "--fraction must be"),
    (["run", "RePR", "--seeds", "-1"], "--seeds must be"),
    (["run", "RePR", "--seeds", "x"], "invalid int value"),
    (["run", "RePR", "--workers", "0"], "--workers must lie between 1 and"),
    (["run", "RePR", "--long-term.alpha", "1.2"], "--long-term.alpha must lie between 0 and 1"),
    (["run", "RePR", "--long-term.alhpa", "0.5"], "did you mean 'long-term.alpha'"),
    (["run", "RePR", "--short-term.learning-rate", "1"], "did you mean 'long-term.learning-rate'"),
    (["run", "RePR", "--evaluation.episodes", "0"], "--evaluation.episodes must be above 0"),
    (["run", "RePR", "--training.num-envs", "2.5"], "takes int"),
    (["run", "RePR", "--training.num-envs"], "needs a value"),
    (["run", "RePR", "--sedes", "1"], "did you mean --seeds"),
    (["run", "RePR", "--reuse", "nowhere"], "nowhere does not exist"),
    (["run", "RePR", "--reuse", "."], "is not a run of reaper"),
    (["run", "RePR", "--reuse", "nowhere", "--dry-run"], "nowhere does not exist"),
    (["run", "RePR", "--device", "cuda"], "no CUDA device"),
    (["run", "RePR", "--device", "toaster"], "unknown --device"),
    (["run", "RePR", "--log", "jsno"], "unknown --log 'jsno'; did you mean 'json'"),
    (["run", "RePR", "--preset", "papre"], "did you mean 'paper'"),
    (["run", "RePR", "--tasks", "Pendulum-v1"], "needs a Discrete action space"),
    (["run", "RePR", "--tasks", "CartPole-v1,catch"], "one network cannot see both"),
    (["run", "RePR", "--tasks", "CartPole-v1", "--observation.features", "3"], "ask for 3 float32 vectors"),
    (["run", "RePR", "--tasks", "catch,FrozenLake-v1"], "one network cannot see both"),
    (["run", "RePR", "--tasks", "ALE/Boxin-v5"], "did you mean 'ALE/Boxing-v5'"),
    (["run", "reh", "--tasks", "atari-3", "--rehearsal.capacity", "90000000"], "GB of memory"),
    (["run"], "required: CONDITION"),
    (["report", "nowhere"], "is not a run"),
    (["report", "no\nwhere"], r"no\nwhere is not a run"),
    (["report", "no\0where"], r"'no\x00where' holds a null byte"),
    (["report", "nowhere", "--markdown", ""], "is a folder; give the name of a file"),
    (["watch", "nowhere"], "is not a run"),
    (["play", "nowhere", "--task", "catch"], "is not a run"),
    (["dance"], "invalid choice"),
]


@pytest.mark.parametrize(
    ("words", "message"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bad_input_is_a_one_line_error(words, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(words) == 2
    error = capfd.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_other_settings_is_refused_and_unharmed(tiny_run, capfd):
    before = {path: path.read_bytes() for path in tiny_run.rglob("*") if path.is_file()}
    assert main(["run", "RePR", "--tasks", "catch,dodge,frog", "--out", str(tiny_run)]) == 2
    assert "was made with other settings" in capfd.readouterr().err
    assert {path: path.read_bytes() for path in tiny_run.rglob("*") if path.is_file()} == before


def test_stages_of_other_folders_are_reused_whatever_the_settings_of_the_rest(tmp_path, capfd):
    assert main(run_args(tmp_path / "first", "reh")) == 0
    second = [*run_args(tmp_path / "second", "no-reh"), "--long-term.best-window", "70", "--no-report"]
    assert main([*second, "--reuse", str(tmp_path / "first"), "--dry-run"]) == 0
    shown = capfd.readouterr().out
    assert re.search(r"learn catch \(seed 0\) +in first", shown)
    assert re.search(r"no-reh: consolidate catch .* to run", shown)
    assert not (tmp_path / "second").exists()
    assert main([*second, "--reuse", str(tmp_path / "first")]) == 0
    stages = [{path.name for path in (tmp_path / out / "stages").iterdir()} for out in ("first", "second")]
    for digest in (both := stages[0] & stages[1]):
        times = [(tmp_path / out / "stages" / digest / "provenance.json").read_text() for out in ("first", "second")]
        assert times[0] == times[1]  # not run again
    assert len(both) == 3  # the teacher, its evaluation and random play


def test_what_is_reused_needs_no_memory(tiny_run, tmp_path, monkeypatch, capfd):
    words = run_args(tmp_path / "run", "RePR", tasks="catch,dodge,frog")
    monkeypatch.setattr("reaper.engines.execute.free_memory", lambda device: 1)
    assert main(words) == 2
    assert "GB of memory" in capfd.readouterr().err
    assert main([*words, "--reuse", str(tiny_run)]) == 0


def test_a_damaged_agent_is_refused(tmp_path, capfd):
    from conftest import run_tiny

    run_tiny(tmp_path / "run", ["no-reh"], tasks="catch")
    for path in (tmp_path / "run").glob("stages/*/agent.safetensors"):
        path.write_bytes(b"\x80\x04]q\x00.")  # how a pickle begins
    assert main(["play", str(tmp_path / "run"), "--task", "catch"]) == 2
    assert "checksum" in capfd.readouterr().err


@pytest.mark.parametrize("extra", ["ale_py", "imageio_ffmpeg"])
def test_a_missing_extra_names_its_pip_command(extra, tiny_run, tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(__import__("sys").modules, extra, None)
    record = ["play", str(tiny_run), "--condition", "RePR", "--task", "catch", "--video", str(tmp_path / "a.mp4")]
    words = ["run", "RePR", "--tasks", "atari-3"] if extra == "ale_py" else record
    assert main(words) == 2
    assert "pip install 'reaper-rl[" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "field", "known"),
    [
        ("conditions", "name", "reh-limit-comp"),
        ("tasks", "name", "atari-6"),
        ("engines", "name", "--ray.store"),
        ("settings", "name", "ewc.ewc-lambda"),
        ("equations", "label", "repr-loss"),
    ],
)
def test_lists_are_machine_readable(command, field, known, capfd):
    assert main([command, "--json"]) == 0
    assert known in [row[field] for row in json.loads(capfd.readouterr().out)]


def test_play_prints_returns_and_records_a_video(tiny_run, tmp_path, capfd):
    video = tmp_path / "catch.gif"
    words = ["play", str(tiny_run), "--condition", "RePR", "--task", "Catch", "--episodes", "2", "--video", str(video)]
    assert main(words) == 0
    assert capfd.readouterr().out.count("Catch, episode") == 2
    from PIL import Image

    with Image.open(video) as recording:
        assert recording.n_frames > 50
        assert recording.size[0] >= 300


def test_play_needs_to_know_which_run(tiny_run, capfd):
    assert main(["play", str(tiny_run), "--task", "catch"]) == 2
    assert "several runs" in capfd.readouterr().err
    assert main(["play", str(tiny_run), "--task", "pong", "--condition", "RePR"]) == 2
    assert "unknown task 'pong'" in capfd.readouterr().err


def test_progress_is_text_and_on_request_one_json_object_per_line(tmp_path, capfd):
    words = run_args(tmp_path / "run", "no-reh")
    assert main(words) == 0
    lines = capfd.readouterr().err.splitlines()
    assert lines
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d stage \d of \d, ", line) for line in lines)
    shutil.rmtree(tmp_path / "run")
    assert main([*words, "--log", "json"]) == 0
    output = capfd.readouterr()
    events = [json.loads(line) for line in output.err.splitlines()]
    assert {"started", "finished"} <= {event["event"] for event in events}
    assert max(event["stages_finished"] for event in events) == events[0]["stages"]
    assert "no-reh" in output.out
    assert (tmp_path / "run" / "report" / "index.html").exists()
    shutil.rmtree(tmp_path / "run" / "report")
    assert main([*words, "--no-report"]) == 0
    assert capfd.readouterr().out == f"finished: {tmp_path / 'run'}\n"
    assert not (tmp_path / "run" / "report").exists()

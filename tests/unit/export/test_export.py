"""Exported agents choose the same actions as the agent itself, in programs that do not know reaper."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from conftest import TINY

import reaper
from reaper.cli.main import main
from reaper.errors import UserError
from reaper.export.plain_network import plain_network
from reaper.results.runs import read_results
from reaper.storage.store import Store


def agents(tiny_run):
    """Small images, and the paper's network for large ones."""
    return {"small": reaper.load(tiny_run, condition="RePR"), "large": reaper.load("pretrained:atari-3")}


def states_for(agent, count=1_000):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, *agent.observation.shape), dtype=np.uint8)


@pytest.mark.parametrize("path", ["tiny", "pretrained:atari-3"])
def test_an_onnx_graph_chooses_the_same_actions(path, tiny_run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    choice = ["--condition", "RePR"] if path == "tiny" else []
    source, file = str(tiny_run) if path == "tiny" else path, tmp_path / "agent.onnx"
    assert main(["export", source, str(file), "--what", "onnx", *choice]) == 0
    agent = reaper.load(source, condition="RePR" if path == "tiny" else None)
    states = states_for(agent, 1_000 if path == "tiny" else 200)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    assert [entry.name for entry in session.get_inputs()] == ["input"]
    (values,) = session.run(None, {"input": states})
    expected = agent.network(torch.tensor(states)).detach().numpy()
    np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    second, best = np.sort(expected, axis=1)[:, -2:].T
    clear = best - second > 1e-5 * np.abs(expected).max()  # anything else is a tie, up to rounding
    assert clear.mean() > 0.98
    assert np.array_equal(values.argmax(axis=1)[clear], agent.predict(states)[0][clear])


USE = """
import sys, torch
assert "reaper" not in sys.modules
from agent import load, TASKS
states = torch.load(sys.argv[1], weights_only=True)
torch.save(load()(states).argmax(dim=1), sys.argv[2])
assert "reaper" not in sys.modules
print(*TASKS)
"""


def test_a_torch_module_chooses_the_same_actions_without_reaper(tiny_run, tmp_path):
    folder = tmp_path / "module"
    assert main(["export", str(tiny_run), str(folder), "--what", "torch", "--condition", "RePR"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["agent.pt", "agent.py"]
    agent = reaper.load(tiny_run, condition="RePR")
    states = states_for(agent)
    torch.save(torch.tensor(states), tmp_path / "states")
    command = [sys.executable, "-c", USE, str(tmp_path / "states"), str(tmp_path / "actions")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["catch", "dodge", "frog"]
    actions = torch.load(tmp_path / "actions", weights_only=True)
    assert np.array_equal(actions.numpy(), agent.predict(states)[0])


def test_a_plain_network_has_the_values_of_every_kind_of_agent(tiny_run, tmp_path):
    from conftest import run_tiny

    run_tiny(tmp_path / "vectors", ["no-reh"], "CartPole-v1,MountainCar-v0")
    vectors = reaper.load(tmp_path / "vectors")
    for agent in (*agents(tiny_run).values(), vectors):
        states = torch.rand(20, *agent.observation.shape).mul(255).to(agent.observation.torch_dtype)
        torch.testing.assert_close(plain_network(agent).outputs(states), agent.network(states), rtol=1e-5, atol=1e-5)


def test_a_card_is_a_folder_that_loads_again(tiny_run, tmp_path):
    folder = tmp_path / "hub" / "my-agent"
    folder.parent.mkdir()
    assert main(["export", str(tiny_run), str(folder), "--what", "card", "--condition", "RePR"]) == 0
    found = {path.name for path in folder.iterdir()}
    assert {"README.md", "config.json", "model.safetensors", "results.json"} < found
    assert found & {"replay.mp4", "replay.gif"}
    ours, again = reaper.load(tiny_run, condition="RePR"), reaper.load(folder)
    states = states_for(ours)
    assert np.array_equal(again.predict(states)[0], ours.predict(states)[0])
    assert again.tasks == ("catch", "dodge", "frog")
    result = next(run for run in read_results(Store.open(tiny_run)) if run.name == "RePR")
    rows = json.loads((folder / "results.json").read_text())
    assert [row["mean_reward"] for row in rows] == pytest.approx(result.scores[-1].mean(axis=1))
    assert {row["episodes"] for row in rows} == {TINY["evaluation.episodes"]}


def test_its_metadata_are_those_of_model_hubs(tiny_run, tmp_path):
    yaml = pytest.importorskip("yaml")
    assert main(["export", str(tiny_run), str(tmp_path / "card"), "--what", "card", "--condition", "RePR"]) == 0
    _, front, text = (tmp_path / "card" / "README.md").read_text().split("---\n", 2)
    metadata = yaml.safe_load(front)
    assert metadata["library_name"] == "reaper"
    assert {"reinforcement-learning", "deep-reinforcement-learning", "catch", "dodge", "frog"} <= set(metadata["tags"])
    (model,) = metadata["model-index"]
    assert [entry["dataset"]["type"] for entry in model["results"]] == ["catch", "dodge", "frog"]
    for entry in model["results"]:
        assert entry["task"]["type"] == "reinforcement-learning"
        (metric,) = entry["metrics"]
        assert metric["type"] == "mean_reward"
        mean, _, _ = metric["value"].split()
        assert np.isfinite(float(mean))
    assert "reaper run RePR" in text


def test_an_agent_without_its_run_has_no_results(tmp_path):
    yaml = pytest.importorskip("yaml")
    assert main(["export", "pretrained:arcade-3", str(tmp_path / "card"), "--what", "card"]) == 0
    _, front, text = (tmp_path / "card" / "README.md").read_text().split("---\n", 2)
    assert "model-index" not in yaml.safe_load(front)
    assert "came without the evaluations of its run" in text
    assert reaper.load(tmp_path / "card").tasks == reaper.load("pretrained:arcade-3").tasks


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"library_name": "other"}, "names another library"),
        ({"format": 9}, "another version"),
        ({"tasks": []}, "names no tasks"),
        ({"num_actions": 3}, "weights are those of another network"),
        ({"settings": None}, "settings"),
    ],
)
def test_a_changed_card_is_refused_in_one_line(change, match, tiny_run, tmp_path):
    from reaper.storage.find import RunChoice, find_memory
    from reaper.storage.model_folder import write_model

    found = find_memory(tiny_run, RunChoice("RePR"))
    write_model(tmp_path, found.memory, found.spec)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UserError, match=match):
        reaper.load(tmp_path)


def test_nothing_is_overwritten(tiny_run, tmp_path, capsys):
    (tmp_path / "there").write_text("mine")
    for what in ("onnx", "torch", "card"):
        words = ["export", str(tiny_run), str(tmp_path / "there"), "--what", what, "--condition", "RePR"]
        assert main(words) == 2
        assert "exists" in capsys.readouterr().err
    assert (tmp_path / "there").read_text() == "mine"

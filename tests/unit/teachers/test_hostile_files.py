"""Broken and hostile files: one line each, and nothing in them is executed."""

import contextlib
import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from stable_baselines3 import DQN
from unit.teachers.agents import sb3_agent

from reaper.errors import UserError, one_line
from reaper.tasks.observation import ObservationSpec
from reaper.teachers import files
from reaper.teachers.sources import open_teacher

VECTORS = ObservationSpec((4,), "float32", "vector")


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The members of an intact agent."""
    path = tmp_path_factory.mktemp("agent") / "agent.zip"
    sb3_agent(DQN, "MlpPolicy").save(path)
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def saved(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def write(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


def refused(source, match):
    with pytest.raises(UserError, match=match) as caught:
        open_teacher(str(source), VECTORS)
    assert "\n" not in one_line(caught.value)


def with_data(members, **changes):
    data = json.loads(members["data"])
    for name, value in changes.items():
        data[name] = {**data[name], **value} if isinstance(value, dict) else value
    return {**members, "data": json.dumps(data)}


def weights_of(members):
    return torch.load(io.BytesIO(members["policy.pth"]), weights_only=True)


def test_pickles_beside_the_settings_are_never_decoded(members, tmp_path):
    import base64

    trap = tmp_path / "executed"
    bomb = base64.b64encode(pickle.dumps(Bomb(trap))).decode()
    changed = with_data(members, policy_class={":serialized:": bomb}, observation_space={":serialized:": bomb})
    found = open_teacher(f"sb3:{write(tmp_path / 'a.zip', changed)}", VECTORS)
    assert found.num_actions == 2
    assert not trap.exists()
    pickle.loads(base64.b64decode(bomb))
    assert trap.exists()  # it would have been noticed


@pytest.mark.parametrize("prefix", ["sb3", "cleanrl:dqn"])
def test_weights_that_would_run_code_are_refused(members, prefix, tmp_path):
    trap = tmp_path / "executed"
    data = saved({"network.0.weight": Bomb(trap)})
    path = tmp_path / "a.zip"
    if prefix == "sb3":
        write(path, {**members, "policy.pth": data})
    else:
        path.write_bytes(data)
    refused(f"{prefix}:{path}", "would run code")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: {}, "holds no data"),
        (lambda m: {**m, "data": b"{"}, "no JSON"),
        (lambda m: {**m, "data": b"[" * 100_000}, "no JSON"),
        (lambda m: {**m, "data": b"[1]"}, "describe no agent"),
        (lambda m: {k: v for k, v in m.items() if k != "policy.pth"}, "holds no policy.pth"),
        (lambda m: {**m, "policy.pth": b"no weights"}, "no zip file"),
        (lambda m: {**m, "policy.pth": m["policy.pth"][:5000]}, "no zip file"),
        (lambda m: {**m, "policy.pth": saved([1, 2])}, "no state dict but list"),
        (lambda m: {**m, "policy.pth": saved({})}, "no state dict"),
        (lambda m: {**m, "policy.pth": saved({"a": 1})}, "which is no tensor"),
        (
            lambda m: {**m, "policy.pth": saved({"other.weight": torch.zeros(2, 3)})},
            r"keys found: other.weight \(2, 3\)",
        ),
        (lambda m: {**m, "../evil": b"x"}, "names that no agent has"),
        (lambda m: with_data(m, action_space={":type:": "<class 'gymnasium.spaces.box.Box'>"}), "Discrete actions"),
        (lambda m: with_data(m, action_space={"n": "3"}), "2 outputs for 3 actions"),
        (lambda m: with_data(m, action_space={"n": "many"}), "number of actions"),
        (lambda m: with_data(m, action_space={"n": "0"}), "number of actions"),
        (lambda m: with_data(m, action_space={"n": "9" * 5_000}), "number of actions"),
        (lambda m: with_data(m, observation_space={"_shape": [5]}), "do not fit observations"),
        (lambda m: with_data(m, observation_space={"_shape": [4, 4]}), "supported: float vectors"),
        (lambda m: with_data(m, observation_space={"_shape": [-4]}), "supported: float vectors"),
        (lambda m: with_data(m, observation_space=None), "unknown observations"),
        (lambda m: with_data(m, policy_kwargs={"activation_fn": "<class 'torch.nn.GELU'>"}), "activation GELU"),
        (lambda m: with_data(m, policy_kwargs={"features_extractor_class": "<class 'me.Mine'>"}), "extractor Mine"),
    ],
)
def test_a_broken_zip_is_one_line(members, change, match, tmp_path):
    refused(f"sb3:{write(tmp_path / 'a.zip', change(members))}", match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda w: {**w, "q_net.q_net.0.weight": w["q_net.q_net.0.weight"] * torch.nan}, "not finite"),
        (lambda w: {k: v for k, v in w.items() if k != "q_net.q_net.2.bias"}, "q_net.q_net.2.bias is missing"),
        (lambda w: {**w, "q_net.q_net.2.weight": torch.zeros(64, 7)}, "do not fit"),
        (lambda w: {**w, "q_net.q_net.2.weight": torch.zeros(64)}, "no linear layer"),
        (lambda w: {**w, "lstm_actor.weight_ih_l0": torch.zeros(4, 4)}, "lstm_actor.weight_ih_l0 is none of a known"),
        (lambda w: {**w, "q_net.q_net.9.weight": torch.zeros(2, 64)}, "not 0, 2, 4"),
        (lambda w: {**w, "q_net.features_extractor.my.weight": torch.zeros(2, 64)}, "cnn.0.weight is missing"),
        (lambda w: {**w, "q_net.q_net.0.bias": torch.zeros(1).expand(2**31)}, "more than"),
        (lambda w: {**w, "q_net.q_net.0.bias": torch.zeros(64).to_sparse()}, "no plain tensor"),
    ],
)
def test_broken_weights_are_one_line(members, change, match, tmp_path):
    changed = {**members, "policy.pth": saved(change(weights_of(members)))}
    refused(f"sb3:{write(tmp_path / 'a.zip', changed)}", match)


def test_bombs_are_refused_before_they_are_unpacked(members, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 2**20)
    big = {**members, "padding": b"\0" * (3 * 2**20)}
    refused(f"sb3:{write(tmp_path / 'a.zip', big, zipfile.ZIP_DEFLATED)}", "more than any agent takes")
    inner = write(tmp_path / "inner.zip", {"archive/data.pkl": b"\0" * 1000}, zipfile.ZIP_DEFLATED).read_bytes()
    refused(f"sb3:{write(tmp_path / 'b.zip', {**members, 'policy.pth': inner})}", "compressed tensors")
    doubled = tmp_path / "c.zip"
    with zipfile.ZipFile(doubled, "w") as out:
        out.writestr("data", "{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            out.writestr("data", "{}")
    refused(f"sb3:{doubled}", "names that no agent has")


def test_files_that_are_none_are_one_line(tmp_path):
    refused("sb3:missing.zip", "is no file")
    refused(f"sb3:{tmp_path}", "is no file")
    refused("sb3:", "names no file")
    refused("missing", "no source of a teacher")
    refused("pretrained:missing", "unknown pretrained agent")
    (tmp_path / "text").write_text("text")
    refused(f"sb3:{tmp_path / 'text'}", "no zip file")


def test_a_truncated_or_flipped_zip_is_one_line(members, tmp_path):
    """Whatever single byte is wrong: an answer or one line, never a traceback."""
    whole = write(tmp_path / "a.zip", members).read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 150)):
        for data in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            (tmp_path / "b.zip").write_bytes(data)
            with contextlib.suppress(UserError):
                open_teacher(f"sb3:{tmp_path / 'b.zip'}", VECTORS)

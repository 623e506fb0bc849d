"""The guide "From several SB3 agents to one network" runs exactly as written, with budgets cut to seconds."""

from __future__ import annotations

import shlex
import sys
from types import ModuleType

import pytest
from conftest import TINY
from doc_pages import ROOT, SHELL, blocks
from stable_baselines3 import DQN, PPO

import reaper
from reaper.cli import reports
from reaper.cli.main import main
from reaper.storage.store import Store

PAGE = ROOT / "docs" / "guides" / "from-sb3.md"
AGENT_STEPS = 300  # instead of 100,000
SETTINGS = {**TINY, "evaluation.episodes": 1, "evaluation.interval": 160}


def shell(text):
    """The commands of a block; a trailing backslash continues one."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [shlex.split(line) for line in lines]


def test_the_guide_runs_as_written(tmp_path, monkeypatch, capsys):
    learn, consolidate = DQN.learn, reaper.consolidate

    def learn_briefly(self, total_timesteps, callback=None):
        assert total_timesteps == 100_000
        callback.eval_freq, callback.n_eval_episodes = AGENT_STEPS, 1
        self.learning_starts = 100
        return learn(self, AGENT_STEPS, callback=callback)

    def consolidate_briefly(teachers, **options):
        return consolidate(teachers, **{**options, "workers": 1}, overrides=SETTINGS, device="cpu", quiet=True)

    monkeypatch.setattr(DQN, "learn", learn_briefly)
    write_report = reports.write_report  # its videos would take most of the time
    monkeypatch.setattr(reports, "write_report", lambda store, commands, videos: write_report(store, commands, False))
    practise = PPO.learn
    monkeypatch.setattr(PPO, "learn", lambda self, total_timesteps: practise(self, AGENT_STEPS))
    monkeypatch.setattr(reaper, "consolidate", consolidate_briefly)
    monkeypatch.chdir(tmp_path)
    guide, ran = ModuleType("guide"), []
    monkeypatch.setitem(sys.modules, "guide", guide)
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(block.text, block.where, "exec", dont_inherit=True), vars(guide))
        elif block.language in SHELL:
            for program, *words in shell(block.text):
                assert program == "reaper"
                if "onnx" in words:
                    pytest.importorskip("onnx")
                brief = []
                if words[0] == "consolidate":
                    brief = [f"--{name}={value}" for name, value in SETTINGS.items()]
                    brief += ["--device", "cpu", "--quiet", "--workers", "1"]
                    brief += ["--no-report"] if words[0] in ran else []  # one is enough
                assert main([*words, *brief]) == 0, words
                ran.append(words[0])
    assert ran == ["consolidate", "export", "export", "export", "consolidate"]
    assert {run.condition_name for run in Store.open(tmp_path / "runs/classic").runs()} == {"RePR", "no-reh"}
    assert "MountainCar-v0" in capsys.readouterr().out
    assert reaper.load(tmp_path / "classic-card").tasks == ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")

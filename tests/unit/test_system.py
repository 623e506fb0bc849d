"""The hardware that a stage's provenance names."""

import platform

import torch

from reaper import system


def test_the_cpu_is_named_by_its_model_if_the_system_knows_it(tmp_path, monkeypatch):
    cpu_info = tmp_path / "cpuinfo"
    core = "processor\t: {}\nmodel name\t: Abacus 3000 @ 1 Hz\n"
    cpu_info.write_text("\n".join(core.format(number) for number in range(2)))
    monkeypatch.setattr(system, "_CPU_INFO", cpu_info)
    assert system.processor_name(torch.device("cpu")) == "Abacus 3000 @ 1 Hz"
    monkeypatch.setattr(system, "_CPU_INFO", tmp_path / "missing")
    assert system.processor_name(torch.device("cpu")) == (platform.processor() or platform.machine())

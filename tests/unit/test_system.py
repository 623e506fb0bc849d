"""The hardware in a stage's record."""

import platform

import torch

from reaper import system as machine


def test_the_model_of_the_cpu_is_named_where_the_system_tells_it(tmp_path, monkeypatch):
    told = tmp_path / "cpuinfo"
    told.write_text(
        "processor\t: 0\nmodel name\t: Abacus 3000 @ 1 Hz\n\nprocessor\t: 1\nmodel name\t: Abacus 3000 @ 1 Hz\n"
    )
    monkeypatch.setattr(machine, "_CPU_INFO", told)
    assert machine.processor_name(torch.device("cpu")) == "Abacus 3000 @ 1 Hz"
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "nothing")
    assert machine.processor_name(torch.device("cpu")) == (platform.processor() or platform.machine())

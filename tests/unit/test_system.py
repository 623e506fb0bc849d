"""The hardware that a stage's provenance names, and processes that end with their parent."""

import platform
import subprocess
import sys

import pytest
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


# A child that would run for a minute, and a parent that ends as soon as the child has begun.
CHILD = """
import sys, time
from reaper import system
if sys.argv[2] == "thread":
    system._killed_with_parent = lambda: False  # as anywhere but on Linux
system.start_worker(int(sys.argv[1]), "builtins:print", "started", "torch" in sys.modules)
sys.stdout.flush()
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2]], stdout=subprocess.PIPE)
print(child.stdout.readline().decode(), end="", flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("watched_by", ["system", "thread"])
def test_a_process_ends_with_its_parent(watched_by):
    """The child inherits the parent's standard error, which is closed when both have ended."""
    command = [sys.executable, "-c", PARENT, CHILD, watched_by]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (ran.returncode, ran.stdout) == (-9, "started False\n"), ran.stderr  # torch is imported later


def test_a_process_whose_parent_has_ended_before_it_looked_does_nothing():
    program = "from reaper.system import start_worker; start_worker(1 << 30, 'builtins:print', 'worked')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "")

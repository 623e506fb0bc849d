"""However a command ends, the processes that it started end with it, even those that have only just begun to start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLER = Path(__file__).parent / "startup_killer.py"


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by their environment in /proc")
def test_no_process_outlives_a_kill_during_its_start_up(tmp_path):
    pytest.importorskip("ray")
    delays = ["0", "0.1", "0.3", "0.8", "1.5"]
    done = subprocess.run([sys.executable, KILLER, tmp_path, *delays], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert {kind: len(times) for kind, times in report.items()} == dict.fromkeys(report, len(delays))
    assert len(report) == 3

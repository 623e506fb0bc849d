"""`make soak`, with few kills. (test_kill.py kills one study in `make test`.)"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parent / "soak.py"


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_studies_that_are_killed_result_in_the_same_bytes_and_leave_no_process(workers):
    command = [sys.executable, SOAK, "--kills", "20", "--workers", str(workers), "--studies", "overlap", "item-quality"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["kills"] == 20
    assert report["studies compared"] >= 1
    assert report["resumed in the middle of a stage"] >= 5

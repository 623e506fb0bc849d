"""Kills a shrunk run with SIGKILL at random moments, over and over, until so many have hit it; prints what was hit.
OUT/whole is never killed; OUT/0, OUT/1 ... are, each until it is done.

    python killer.py OUT KILLS SEED [--beside] CONDITION...

With --beside, those that are killed play their tests during training in a process of their own, as on a GPU.

Every attempt is a fork of this process, which has imported everything and started no thread: so an attempt costs only
its work, and may be killed anywhere in it.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import TINY  # sets one thread

import reaper.work
from reaper.study import carry_out, plan
from reaper.watching import event_files, images

event_files.new_event(0, [event_files.scalar("", 0.0)])  # imports what draws curves
images.as_png(images.Image.new("L", (1, 1)))

LONGER = {"generator.steps": 60, "long-term.observed-frames": 400, "short-term.observed-frames": 480}


def study(conditions):
    overrides = {**TINY, **LONGER}
    tasks = "arcade-3"
    return plan(conditions, tasks, device="cpu", workers=1, overrides=overrides, checkpoint_every="24")


def attempt(conditions, out, seconds):
    """Runs the study in a child and kills it after so many seconds; None: it had ended before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            carry_out(study(conditions), out, lambda stage, event: None)
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0, f"the run failed: {status}"
            return None
        time.sleep(0.002)
    running = [path.name for path in (out / "locks").glob("*")] if out.exists() else []
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return running


def kill_until_done(conditions, out, kills, moments, longest, kinds):
    """The kinds of stages that were running when the process was killed, and how often one went on from its middle."""
    hit, resumed = [], 0
    while len(hit) < kills:
        resumed += bool(list(out.glob("unfinished/*/[0-9]*")))
        found = attempt(conditions, out, moments.uniform(0.01, longest))
        if found is None:
            return hit, resumed
        hit.append(next((kinds[name] for name in found if name in kinds), "between stages"))
    assert attempt(conditions, out, 600) is None
    return hit, resumed


def main():
    out, kills, moments, conditions = Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3]), sys.argv[4:]
    beside = conditions[0] == "--beside"
    conditions = conditions[beside:]
    kinds = {stage.digest: stage.kind for stage in study(conditions).stages}
    started = time.monotonic()
    assert attempt(conditions, out / "whole", 600) is None
    longest = 2 * (time.monotonic() - started) / 25  # so that the kills are spread over a whole run
    if beside:
        reaper.work.worth_a_process = lambda settings, device: True
        longest = 6.0  # some kills come before the process is there, some after it has told something
    hit, resumed, runs = [], 0, 0
    while len(hit) < kills:
        more, times = kill_until_done(conditions, out / f"{runs}", kills - len(hit), moments, longest, kinds)
        hit, resumed, runs = hit + more, resumed + times, runs + 1
    print(json.dumps({"kills": len(hit), "hit": hit, "resumed": resumed, "runs": runs}))


if __name__ == "__main__":
    main()

"""Kills a shrunk run with SIGKILL at random moments, over and over, until so many have hit it; prints what was hit.
OUT/whole is never killed; OUT/0, OUT/1 ... are, each until it is done.

    python killer.py OUT KILLS SEED random|every-kind|beside CONDITION...

Some kinds of stages are so short that random moments miss them. With `every-kind` the last kills, two a kind, wait for
a stage of a kind that none has hit yet. With `beside`, those that are killed play their tests during training in a
process of their own, as on a GPU.

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

from conftest import plan_tiny, run_plan  # sets one thread

import reaper.study.stage_run
from reaper.monitoring import event_files, images

event_files.new_event(0, [event_files.scalar_value("", 0.0)])  # imports what draws curves
images.as_png(images.Image.new("L", (1, 1)))

LONGER = {"gan.steps": 60, "long-term.agent-steps": 400, "short-term.agent-steps": 480}


def study(conditions):
    return plan_tiny(conditions, "arcade-3", overrides=LONGER, checkpoint_every="24")


def attempt(conditions, out, seconds, aimed_at=frozenset()):
    """Runs the study in a child and kills it after so many seconds, or later, as soon as one of the stages aimed at is
    running; None: it had ended before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run_plan(study(conditions), out)
            code = 0
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end or (aimed_at and aimed_at.isdisjoint(running_in(out))):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0, f"the run failed: {status}"
            return None
        time.sleep(0.002)
    running = running_in(out)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return running


def running_in(out):
    """The stages that are being run, by their digests."""
    return {path.name for path in out.glob("locks/*")}


def kill_until_done(conditions, out, kills, hit, moments, longest, kinds, how):
    """Adds the kinds of stages that were running when the process was killed, and returns how often one went on from
    its middle."""
    resumed = 0
    while len(hit) < kills:
        resumed += bool(list(out.glob("unfinished/*/[0-9]*")))
        missed = set(kinds.values()) - set(hit)
        aims = how == "every-kind" and kills - len(hit) <= 2 * len(missed)
        aimed_at = {name for name, kind in kinds.items() if aims and kind in missed}
        found = attempt(conditions, out, moments.uniform(0.01, longest), aimed_at)
        if found is None:
            return resumed
        hit.append(next((kinds[name] for name in found if name in kinds), "between stages"))
    assert attempt(conditions, out, 600) is None
    return resumed


def main():
    out, kills, moments = Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3])
    how, conditions = sys.argv[4], sys.argv[5:]
    kinds = {stage.digest: stage.kind for stage in study(conditions).stages}
    started = time.monotonic()
    assert attempt(conditions, out / "whole", 600) is None
    longest = 2 * (time.monotonic() - started) / 25  # so that the kills are spread over a whole run
    if how == "beside":
        reaper.study.stage_run.worth_concurrent_eval = lambda settings, device: True
        longest = 6.0  # some kills come before the process is there, some after it has told something
    hit, resumed, runs = [], 0, 0
    while len(hit) < kills:
        resumed += kill_until_done(conditions, out / f"{runs}", kills, hit, moments, longest, kinds, how)
        runs += 1
    print(json.dumps({"kills": len(hit), "hit": hit, "resumed": resumed, "runs": runs}))


if __name__ == "__main__":
    main()

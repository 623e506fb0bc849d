"""Kills a process with SIGKILL while the processes that it has started import what they need.

    python startup_killer.py OUT DELAY...

Each delay, in seconds, counts from the moment when the first of these processes exists. Prints for each kind of process
how long the last of them lived on after each kill.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from killing import kill_when, mark_children, marked, seconds_until_gone

LIMIT = 3.0  # seconds; a worker that does not notice imports for as long, and then waits forever
LONG = {"short-term.agent-steps": 200_000, "evaluation.interval": 200_000}


def workers_of_a_study(out):
    """Two workers, and the tracker of what they share with their parent."""
    from conftest import plan_tiny, run_plan

    study = plan_tiny(["no-reh"], "catch,dodge", workers=2, overrides=LONG)
    return lambda: run_plan(study, out)


def evaluation_process(out):
    from conftest import TINY

    from reaper.config.overrides import with_overrides
    from reaper.config.presets import ARCADE
    from reaper.context import Context
    from reaper.learning.evaluation.process import EvalProcess

    def work():
        EvalProcess(Context(with_overrides(ARCADE, TINY), 6, 0, ("short-term",)))
        time.sleep(60)

    return work


def question_to_a_cluster(out):
    """A process that asks a Ray cluster for its state; here it never answers."""
    import socket

    from reaper.engines.ray_connection import _check_answering

    silent = socket.create_server(("127.0.0.1", 0))
    return lambda: _check_answering(f"127.0.0.1:{silent.getsockname()[1]}")


def outlived(work, delay):
    """Seconds that the children of `work` outlived it."""
    mark, seen = mark_children(), []

    def due():
        if not seen and marked(mark):
            seen.append(time.monotonic())
        return bool(seen) and time.monotonic() - seen[0] >= delay

    assert kill_when(due, work), "it ended before it was killed"
    return round(seconds_until_gone(mark, LIMIT), 2)


def main():
    out, delays, report = Path(sys.argv[1]), [float(word) for word in sys.argv[2:]], {}
    for kind in (workers_of_a_study, evaluation_process, question_to_a_cluster):
        work = kind(out)
        report[kind.__name__] = [outlived(work, delay) for delay in delays]
    print(json.dumps(report))


if __name__ == "__main__":
    main()

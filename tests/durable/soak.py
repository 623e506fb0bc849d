"""Kills studies with SIGKILL at random moments, hundreds of times, and compares them with ones that were never killed.

    python tests/durable/soak.py --kills 300 --workers 2

Three small studies take turns; together they have stages of every kind and every condition. Each is killed and resumed
until it is finished. Then every artefact must have the same bytes as that of the study that was never killed, and after
every kill no process may be left. With one worker, `item-quality` evaluates in a process of its own, as on a GPU.

A quarter of the kills come at any time after the start, while workers may still import, and half at any time after the
first stage has begun. The others wait, but not for long, for a kind of stage that has hardly been hit.
"""

import argparse
import itertools
import json
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from killing import artefacts, kill_when, mark_children, running_stages, seconds_until_gone

STUDIES = ("conditions", "item-quality", "overlap")
CONCURRENT_EVAL = "item-quality"  # the study whose evaluations run in a process of their own, with one worker
LONGEST = 1.5  # seconds before a kill; long enough that most attempts write checkpoints
LONGEST_CONCURRENT = 6.0  # with such a process, which takes seconds to start
LONGEST_WAIT = 8.0  # seconds for a certain stage to begin, while others run
ENOUGH_HITS = 10  # of one kind of stage; it then needs no kill of its own any more
LIMIT = 3.0  # seconds that a process may outlive a kill
# Longer than in other tests, and with resets of all environments between two evaluations.
LONGER = {"short-term.agent-steps": 480, "gan.steps": 30, "fisher.batches": 8, "training.reset-interval": 50}


def plan_study(name, workers):
    from conftest import plan_tiny, tiny_options

    from reaper.study.conditions import CONDITIONS
    from reaper.study.experiments import plan_experiment

    options = {"workers": workers, "overrides": LONGER, "checkpoint_every": "24"}
    if name == "conditions":
        return plan_tiny(list(CONDITIONS), "catch,dodge", **options)
    return plan_experiment(name, tiny_options(tasks="catch,dodge", **options))


class Moment:
    """When to kill: so many seconds after one of these stages has begun. If there are none, this counts from the start;
    if none begins, the kill comes all the same."""

    def __init__(self, out, stages, delay):
        self.out, self.stages, self.delay = out, stages, delay
        self.since = None if stages else time.monotonic()
        self.first = math.inf  # when any stage had begun
        self.running = set()  # digests

    def due(self):
        self.running = running_stages(self.out)
        now = time.monotonic()
        self.first = min(self.first, now) if self.running else self.first
        if self.since is None and (self.stages & self.running or now - self.first > LONGEST_WAIT):
            self.since = now
        return self.since is not None and now - self.since >= self.delay


def unfinished(out, kinds):
    return {digest: kind for digest, kind in kinds.items() if not (out / "stages" / digest).exists()}


@dataclass
class Soak:
    kills: int
    workers: int
    rng: random.Random
    out: Path
    mark: str
    hits: Counter = field(default_factory=Counter)  # kind of stage that was running -> kills
    killed: int = 0
    resumed: int = 0  # attempts that began in the middle of a stage
    compared: int = 0  # studies that were killed, finished and compared
    longest_left: float = 0.0  # seconds that a process outlived a kill
    started: float = field(default_factory=time.monotonic)

    def run_whole(self, name):
        """The study that is never killed."""
        from conftest import run_plan

        study = plan_study(name, workers=1)
        assert not kill_when(lambda: False, lambda: run_plan(study, self.out / "whole" / name))

    def run_killed(self, name):
        """Kills a study until it is finished, and compares it. The last one ends unharmed when all kills are done."""
        from conftest import run_plan

        import reaper.study.stage_run

        concurrent = name == CONCURRENT_EVAL and self.workers == 1
        reaper.study.stage_run.worth_concurrent_eval = lambda settings, device: concurrent
        longest = LONGEST_CONCURRENT if concurrent else LONGEST
        study, out = plan_study(name, self.workers), self.out / "killed" / name
        kinds = {stage.digest: stage.kind for stage in study.stages}
        self.hits.update(dict.fromkeys(kinds.values(), 0))
        while self.killed < self.kills:
            self.resumed += bool(list(out.glob("unfinished/*/[0-9]*")))
            moment = Moment(out, *self.draw(unfinished(out, kinds), longest))
            if not kill_when(moment.due, lambda: run_plan(study, out)):
                break
            self.killed += 1
            self.hits.update({kinds[digest] for digest in moment.running} or {"no stage"})
            self.longest_left = max(self.longest_left, seconds_until_gone(self.mark, LIMIT))
            if self.killed % 25 == 0:
                self.show(f"killing {name}")
        else:
            assert not kill_when(lambda: False, lambda: run_plan(study, out))
        self.compare(name, out)

    def draw(self, kinds, longest):
        """The stages that the next kill waits for, one of `kinds`, and how many seconds it comes after the first of
        them has begun."""
        draw, delay = self.rng.random(), self.rng.uniform(0.0, longest)
        rare = {digest for digest, kind in kinds.items() if self.hits[kind] < ENOUGH_HITS}
        if draw < 0.25:
            return set(), delay
        return (rare, delay / 20) if rare and draw < 0.5 else (set(kinds), delay)

    def compare(self, name, out):
        expected, found = artefacts(self.out / "whole" / name), artefacts(out)
        different = {path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path)}
        assert not different, f"{name}: not the same bytes: {sorted(different)}"
        left = [*out.glob("unfinished/*/*"), *out.glob("live/*")]
        assert not left, f"{name}: left behind: {left}"
        self.compared += 1
        self.show(f"{name} has the same bytes")
        shutil.rmtree(out)

    def show(self, text):
        minutes = (time.monotonic() - self.started) / 60
        print(f"{self.killed} of {self.kills} kills in {minutes:.1f} min: {text}", flush=True)

    def report(self):
        return {
            "kills": self.killed,
            "workers": self.workers,
            "resumed in the middle of a stage": self.resumed,
            "studies compared": self.compared,
            "hits": dict(self.hits),
            "longest life after a kill (s)": round(self.longest_left, 2),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=STUDIES)
    arguments = parser.parse_args()
    os.environ["PYTHONWARNINGS"] = "ignore"  # processes that outlive their parent warn of what it left behind
    with tempfile.TemporaryDirectory(prefix="reaper-soak-") as folder:
        soak = Soak(arguments.kills, arguments.workers, random.Random(arguments.seed), Path(folder), mark_children())
        for name in arguments.studies:
            soak.run_whole(name)
        for name in itertools.cycle(arguments.studies):
            if soak.killed == soak.kills:
                break
            soak.run_killed(name)
    print(json.dumps(soak.report()))


if __name__ == "__main__":
    main()

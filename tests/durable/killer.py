"""Kills a shrunk run with SIGKILL at random moments, again and again, until so many kills have hit it.

    python killer.py OUT KILLS SEED random|every-kind|concurrent-eval|vectors CONDITION...

OUT/whole is never killed; OUT/0, OUT/1 ... are, each until it is finished. Prints the kinds of stages that were hit.

Some kinds of stages are so short that random moments miss them: with `every-kind` the last kills, two per kind, wait
for a stage of a kind that has not been hit. With `concurrent-eval` the runs that are killed evaluate in a process of
their own during training, as on a GPU. With `vectors` the tasks are Gymnasium's, with vectors of different lengths.

Every attempt is a fork of this process, which has imported everything and started no thread: an attempt costs only its
work, and may be killed anywhere in it.
"""

import json
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import plan_tiny, run_plan  # sets one thread
from killing import kill_when, running_stages

import reaper.study.stage_run
from reaper.monitoring import event_files, images

event_files.new_event(0, [event_files.scalar_value("", 0.0)])  # imports what writes curves
images.as_png(images.Image.new("L", (1, 1)))

# Longer than in other tests, and with resets of all environments between two evaluations.
LONGER = {
    "gan.steps": 60,
    "long-term.agent-steps": 400,
    "short-term.agent-steps": 480,
    "training.reset-interval": 50,
}


TASKS = "CartPole-v1,Acrobot-v1" if sys.argv[4:5] == ["vectors"] else "arcade-3"


def new_study(conditions):
    return plan_tiny(conditions, TASKS, overrides=LONGER, checkpoint_every="24")


def attempt(conditions, out, seconds, targets=frozenset()):
    """Runs the study in a child process and kills it after so many seconds, or later, as soon as one of the target
    stages is running. Returns the stages that were running; None if the study had finished before."""
    end, running = time.monotonic() + seconds, set()

    def due():
        nonlocal running
        running = running_stages(out)
        return time.monotonic() >= end and not (targets and targets.isdisjoint(running))

    return running if kill_when(due, lambda: run_plan(new_study(conditions), out)) else None


@dataclass
class Killer:
    conditions: list[str]
    kills: int
    rng: random.Random
    mode: str
    longest: float  # seconds before a kill
    kinds: dict[str, str]  # digest -> kind of stage
    hit: list[str] = field(default_factory=list)  # the kind that was running at each kill
    resumed: int = 0  # attempts that started from the middle of a stage

    def run(self, out):
        """Kills one run until it is finished, or until there were enough kills."""
        while len(self.hit) < self.kills:
            self.resumed += bool(list(out.glob("unfinished/*/[0-9]*")))
            running = attempt(self.conditions, out, self.rng.uniform(0.01, self.longest), self.targets())
            if running is None:
                return
            self.hit.append(next((self.kinds[digest] for digest in running if digest in self.kinds), "between stages"))
        assert attempt(self.conditions, out, 600) is None

    def targets(self):
        missed = set(self.kinds.values()) - set(self.hit)
        if self.mode != "every-kind" or self.kills - len(self.hit) > 2 * len(missed):
            return frozenset()
        return {digest for digest, kind in self.kinds.items() if kind in missed}


def main():
    out, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3])
    mode, conditions = sys.argv[4], sys.argv[5:]
    kinds = {stage.digest: stage.kind for stage in new_study(conditions).stages}
    started = time.monotonic()
    assert attempt(conditions, out / "whole", 600) is None
    longest = 2 * (time.monotonic() - started) / 25  # so that kills are spread over a whole run
    if mode == "concurrent-eval":
        reaper.study.stage_run.worth_concurrent_eval = lambda settings, device: True
        longest = 6.0  # some kills come before the process has started, some after its first row
    killer, runs = Killer(conditions, kills, rng, mode, longest, kinds), 0
    while len(killer.hit) < kills:
        killer.run(out / f"{runs}")
        runs += 1
    print(json.dumps({"kills": len(killer.hit), "hit": killer.hit, "resumed": killer.resumed, "runs": runs}))


if __name__ == "__main__":
    main()

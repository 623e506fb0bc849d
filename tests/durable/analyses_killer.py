"""Kills a shrunk experiment with SIGKILL once in the middle of every stage that its analysis adds, and resumes it.

    python analyses_killer.py OUT EXPERIMENT

OUT/whole is never killed; OUT/killed is, until it is finished. Prints the kinds of stages that were hit. As in
killer.py, every attempt is a fork of this process, which has started no thread.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import run_plan, tiny_options  # sets one thread

from reaper.storage.checkpoints import CheckpointDir
from reaper.study.experiments import plan_experiment

SHORT = {"short-term.agent-steps": 160, "evaluation.interval": 200, "fisher.batches": 4}
KINDS = ("student", "fisher")  # an overlap takes no time that could be lost


def new_study(name):
    return plan_experiment(name, tiny_options(tasks="catch,dodge", overrides=SHORT, checkpoint_every="24"))


def write_and_die(kinds, hits):
    """A `CheckpointDir.write` that kills the process after the third checkpoint of a stage."""
    write = CheckpointDir.write

    def killing_write(self, tensors, others):
        write(self, tensors, others)
        kind = kinds.get(self.digest)
        if kind in KINDS and self.numbers()[-1] == 3:  # a resumed stage never writes its third again
            with hits.open("a") as file:
                file.write(kind + "\n")
            os.kill(os.getpid(), signal.SIGKILL)

    return killing_write


def attempt(name, out):
    """Runs the experiment in a child process; whether it finished."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run_plan(new_study(name), out)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code == 0


def main():
    out, name = Path(sys.argv[1]), sys.argv[2]
    assert attempt(name, out / "whole")
    kinds, hits = {stage.digest: stage.kind for stage in new_study(name).stages}, out / "hits"
    CheckpointDir.write = write_and_die(kinds, hits)
    for _ in range(len(kinds)):
        if attempt(name, out / "killed"):
            print(json.dumps(hits.read_text().split()))
            return
    sys.exit("it never finished")


if __name__ == "__main__":
    main()

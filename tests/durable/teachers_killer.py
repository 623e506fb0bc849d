"""Kills a consolidation from files with SIGKILL in the middle of stages, and deletes the files after the first kill.

    python teachers_killer.py OUT

OUT/whole is never killed, OUT/killed is. Prints how many kills hit it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import plan_tiny, run_plan  # sets one thread
from killing import kill_when
from unit.teachers.zips import write_sb3

FINISHED = (2, 3, 4, 5)  # stages before each kill: the two copies of weights, the teachers, the first memory


def main(out):
    files = {"catch": out / "a.zip", "dodge": out / "b.zip"}
    teachers = {task: write_sb3(file, seed=len(task)) for task, file in files.items()}

    def work(folder):
        given = {"teachers": teachers, "checkpoint_every": "40", "out": folder}
        run_plan(plan_tiny(["RePR"], "catch,dodge", **given), folder)

    def in_the_middle(stages):
        patterns = ("stages/*", "unfinished/*/[!.]*")
        try:
            finished, begun = (list((out / "killed").glob(pattern)) for pattern in patterns)
        except FileNotFoundError:  # a stage was finished, and its checkpoints deleted, while they were listed
            return False
        return len(finished) >= stages and bool(begun)

    work(out / "whole")
    hit = 0
    for stages in FINISHED:
        hit += kill_when(lambda stages=stages: in_the_middle(stages), lambda: work(out / "killed"))
        for file in files.values():
            file.unlink(missing_ok=True)
    work(out / "killed")
    print(hit)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

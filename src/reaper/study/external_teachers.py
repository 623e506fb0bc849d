"""Teachers from elsewhere in a study: which task each of them teaches, and what that means for its conditions."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.storage.manifests import Provenance
from reaper.storage.records import TeacherSource
from reaper.storage.store import Store
from reaper.study.conditions import Condition, as_policy
from reaper.study.kinds.base import Stage
from reaper.study.kinds.external_teacher import TEACHER_WEIGHTS
from reaper.study.options import StudyOptions
from reaper.tasks.observation import VECTOR, ObservationSpec
from reaper.tasks.sequence import Sequence, match_task
from reaper.tasks.task import Task
from reaper.teachers.files import TeacherFile
from reaper.teachers.fitting import TaskInSequence, fit
from reaper.teachers.functions import is_importable
from reaper.teachers.sources import open_teacher
from reaper.version import VERSION


@dataclass(frozen=True)
class ExternalTeachers:
    """The teachers of some or all tasks of a sequence, by task; checked."""

    files: Mapping[str, TeacherFile] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files)

    def weights(self, task: str) -> Stage | None:
        """The stage with the weights of a task's teacher; None where the task is learnt here."""
        return TEACHER_WEIGHTS.stage(self.files[task]) if task in self.files else None

    @property
    def only_policies(self) -> list[str]:
        """The tasks whose teachers know no values."""
        return [task for task, file in self.files.items() if file.outputs == "logits"]

    def extend(self, sequence: Sequence) -> Sequence:
        """The same tasks under a name of their own: other teachers make another study."""
        contents = "".join(f"{task} {file.contents}\n" for task, file in sorted(self.files.items()))
        digest = hashlib.sha256(contents.encode()).hexdigest()[:6]
        return replace(sequence, name=f"{sequence.name} from teachers ({digest})")

    def condition(self, condition: Condition) -> Condition:
        """The condition as it learns from these teachers: where one of them knows no values, all transfer policies."""
        if not condition.make_objective().needs_teacher:
            raise UserError(f"{condition.name} learns its tasks itself, by Q-learning: it takes no teachers")
        return as_policy(condition) if self.only_policies else condition

    def notices(self, sequence: Sequence) -> list[str]:
        """What the user should know about the files, and about teachers without values."""
        remarks = list(dict.fromkeys(remark for file in self.files.values() for remark in file.remarks))
        if not self.only_policies:
            return remarks
        tasks, others = ", ".join(self.only_policies), [n for n in sequence.names if n not in self.only_policies]
        converted = f"; of the teachers of {', '.join(others)} only the best action is used, too" if others else ""
        return [*remarks, f"the teachers of {tasks} give action probabilities, so policies are transferred{converted}"]

    def write(self, store: Store) -> None:
        """Copies the weights to the store where they are not there yet."""
        for file in self.files.values():
            stage = TEACHER_WEIGHTS.stage(file)
            if not store.has(stage.digest):
                finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                provenance = Provenance(finished=finished, version=VERSION)
                store.write_stage(stage.manifest, {"agent": file.weights}, {"rows": []}, provenance)

    def record(self) -> dict[str, TeacherSource]:
        """Their entries in the record of a run."""
        return {
            task: TeacherSource(file.source, file.outputs, TEACHER_WEIGHTS.stage(file).digest)
            for task, file in self.files.items()
        }


def open_teachers(options: StudyOptions, sequence: Sequence, observation: ObservationSpec) -> ExternalTeachers:
    """Opens the teachers that the options name, and fits each to its task once: what does not fit is refused before
    anything is written."""
    files: dict[str, TeacherFile] = {}
    for given, source in options.teachers.items():
        name = match_task(sequence.names, given)
        if name in files:
            raise UserError(f"--teacher: {name} has two teachers")
        task = next(task for task in sequence.tasks if task.name == name)
        file = _open(source, task, options.out, observation)
        fit(file.network, file.weights, TaskInSequence(task, observation, sequence.num_actions))
        _check_function(file, options)
        files[name] = file
    return ExternalTeachers({name: files[name] for name in sequence.names if name in files})


def _open(source: Any, task: Task, out: Path, observation: ObservationSpec) -> TeacherFile:
    """From its source; or, if that has vanished since, the copy in the output folder."""
    vectors = task.observation if observation.kind == VECTOR else None
    try:
        return open_teacher(source, vectors or observation)
    except UserError:
        copy = _copy_in(out, str(source), task.name)
        if copy is None:
            raise
        return copy


def _copy_in(out: Path, source: str, task: str) -> TeacherFile | None:
    if not (out / "reaper.json").exists():
        return None
    store = Store.open(out)
    for run in store.runs():
        found = run.sources.get(task)
        if found and found.source == source and store.has(found.stage):
            stage = store.stage(found.stage)
            return TeacherFile(source, stage.spec["network"], stage.tensors("agent"))
    return None


def _check_function(file: TeacherFile, options: StudyOptions) -> None:
    """A function is called by every process that runs stages, and on the CPU."""
    if file.network["family"] != "function":
        return
    if options.device.startswith("cuda"):
        raise UserError(f"{file.source} is a function, which is called on the CPU: add --device cpu")
    if not is_importable(file.source) and (options.workers != 1 or options.engine != "local"):
        raise UserError(f"{file.source} has no importable name: put it into a module, or use workers=1")

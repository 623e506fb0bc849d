"""Verifying an output folder: every file is read and compared with its checksum.

Nothing is changed, unless damage is to be set aside: then it is moved to OUT/damaged, so that running the command of
its run again recreates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reaper.errors import DamagedArtefact, ReaperError, UserError
from reaper.storage.checkpoints import KEPT, CheckpointDir
from reaper.storage.files import storing, sync
from reaper.storage.locks import Lock
from reaper.storage.records import ExperimentRecord, RunRecord
from reaper.storage.store import HEADER, Store

R = TypeVar("R", RunRecord, ExperimentRecord)
REWRITTEN = "rewritten by the command of that run"


@dataclass(frozen=True)
class Problem:
    """A file or folder that is not as it was written."""

    path: Path  # what `set_aside` moves
    what: str
    remedy: str
    damaged: bool = True  # False: a leftover that nobody reads
    harmless: bool = False  # nothing has to be recreated
    movable: bool = True  # False: something is missing, and what is there is intact

    def __str__(self) -> str:
        return f"{'harmless: ' if self.harmless else ''}{self.what}; {self.remedy}"


@dataclass(frozen=True)
class Origin:
    """How a stage came about, according to the record of a run or experiment."""

    title: str
    parents: tuple[str, ...]  # digests
    command: str
    imported: bool = False  # a long-term memory from elsewhere


class Verifier:
    """Reads everything in an output folder once."""

    def __init__(self, out: Path) -> None:
        self.out, self.store = out, Store(out)
        if not any((out / name).exists() for name in (HEADER, "stages", "runs")):
            raise UserError(f"{out} is not a run of reaper: it has no {HEADER}")
        if (out / HEADER).is_file():
            with suppress(DamagedArtefact):  # reported with the rest
                self.store.check_format()
        self.runs: list[RunRecord] = []
        self.experiments: list[ExperimentRecord] = []
        self.broken_records = [
            *self._records("runs", self.store.run, self.runs),
            *self._records("experiments", self.store.experiment, self.experiments),
        ]
        self.origins = _origins(self.runs, self.experiments, out)
        self.damage = {digest: error for digest in self.store.stages() if (error := self._damage(digest))}

    def problems(self) -> list[Problem]:
        return [
            *self._header(),
            *self.broken_records,
            *self._strays(),
            *self._stages(),
            *self._checkpoints(),
            *self._leftovers(),
        ]

    def _header(self) -> Iterator[Problem]:
        try:
            _ = self.store.header
        except UserError as error:
            yield Problem(self.out / HEADER, _said(error), f"rewritten by {self._command()}")

    def _records(self, folder: str, read: Callable[[str], R], found: list[R]) -> Iterator[Problem]:
        for name in self.store.record_names(folder):
            try:
                found.append(read(name))
            except DamagedArtefact as error:
                yield Problem(self.out / folder / f"{name}.json", _said(error), REWRITTEN)

    def _command(self) -> str:
        commands = sorted({origin.command for origin in self.origins.values()})
        return commands[0] if len(commands) == 1 else "the command of its run"

    def _damage(self, digest: str) -> ReaperError | None:
        try:
            self.store.stage(digest).check()
        except ReaperError as error:
            return error if self.store.has(digest) else None  # another process has set it aside
        return None

    def _strays(self) -> Iterator[Problem]:
        """Records are written before the first stage of a run, so stages without one have lost it."""
        strays = [digest for digest in self.store.stages() if digest not in self.origins]
        if strays and not self.broken_records:
            what = f"{self.out / 'runs'} lacks a record: {len(strays)} stages belong to no run, for example {strays[0]}"
            yield Problem(self.out / "runs", what, REWRITTEN, movable=False)

    def _stages(self) -> Iterator[Problem]:
        for digest, error in self.damage.items():
            yield Problem(self.store.path_of(digest), _said(error), self._remedy(digest))
        for digest in self.store.stages():
            if digest not in self.damage:
                yield from self._left_out(digest)
                manifest = self.store.stage(digest).manifest
                for parent in manifest.parents.values():
                    if not self.store.has(parent):
                        path = self.store.path_of(parent)
                        what = f"{path}, a parent of {manifest.title!r}, is missing"
                        yield Problem(path, what, self._remedy(parent))

    def _left_out(self, digest: str) -> Iterator[Problem]:
        artefact = self.store.stage(digest)
        if artefact.left_out:
            what = f"{artefact.folder} lacks {', '.join(sorted(artefact.left_out))}"
            remedy = f"left out of the pack it came in; {self._remedy(digest)}"
            yield Problem(artefact.folder, what, remedy, damaged=False, harmless=True, movable=False)

    def _remedy(self, digest: str) -> str:
        origin = self.origins.get(digest)
        if origin is None:
            return "recreated by the command of its run, whose record is missing"
        if origin.imported:
            return f"{origin.title}: imported again by {origin.command}"
        if not origin.parents:
            return f"{origin.title}: run again from scratch by {origin.command}"
        parents = " and ".join(f"{self._title(parent)!r} ({self._state(parent)})" for parent in origin.parents)
        return f"{origin.title}: run again from {parents} by {origin.command}"

    def _title(self, digest: str) -> str:
        return self.origins[digest].title if digest in self.origins else f"stage {digest}"

    def _state(self, digest: str) -> str:
        if digest in self.damage:
            return "damaged, too"
        return "intact" if self.store.has(digest) else "missing, run first"

    def _checkpoints(self) -> Iterator[Problem]:
        for digest in self.store.unfinished_stages():
            checkpoints = CheckpointDir(self.store.unfinished(digest), digest)
            if self.store.has(digest):
                yield _leftover(checkpoints.folder, "its stage is finished")
                continue
            numbers = checkpoints.numbers()
            damage = {number: error for number in numbers if (error := _checkpoint_damage(checkpoints, number))}
            good = [number for number in numbers if number not in damage]
            for number, error in damage.items():
                title = self._title(digest)
                remedy = (
                    f"{title} resumes from checkpoint {good[-1]}"
                    if good
                    else f"{title} starts from scratch once this is set aside (--set-aside)"
                )
                yield Problem(checkpoints.folder / str(number), _said(error), remedy, harmless=bool(good))

    def _leftovers(self) -> Iterator[Problem]:
        for pattern in (".*.part", "*/.*.part", "unfinished/*/.*.part"):
            for path in self.out.glob(pattern):
                yield _leftover(path, "a process was killed while it was writing it")


def _checkpoint_damage(checkpoints: CheckpointDir, number: int) -> ReaperError | None:
    try:
        checkpoints.open(number).check()
    except ReaperError as error:
        return error if number in checkpoints.numbers()[-KEPT:] else None  # a newer one has replaced it
    return None


def _leftover(path: Path, why: str) -> Problem:
    return Problem(path, f"{path} is a leftover", f"{why}, and the next run removes it", damaged=False, harmless=True)


def _said(error: ReaperError) -> str:
    return f"{error.path} {error.what}" if isinstance(error, DamagedArtefact) else str(error)


def _origins(runs: list[RunRecord], experiments: list[ExperimentRecord], out: Path) -> dict[str, Origin]:
    """Every stage by its digest. A stage of a run and of an experiment is described as the run's."""
    origins: dict[str, Origin] = {}
    for experiment in experiments:
        command = _command(experiment, out)
        origins |= {stage.digest: Origin(stage.title, stage.parents, command) for stage in experiment.stages}
    for run in runs:
        command, imported = _command(run, out), run.memories[run.known_tasks - 1] if run.continued else None
        for digest, stage in run.stages.items():
            origins[digest] = Origin(stage.title, stage.parents, command, digest == imported)
    return origins


def _command(record: RunRecord | ExperimentRecord, out: Path) -> str:
    return f"`{record.command or 'the command of this run'} --out {out}`"


def set_aside(out: Path, problems: list[Problem]) -> list[Path]:
    """Moves what is damaged to OUT/damaged and returns the new paths. Nothing is deleted."""
    lock = Lock(out / "locks" / "run")
    if not lock.take():
        raise UserError(f"another run is writing to {out}; wait for it before you set damage aside")
    moved = []
    try:
        with storing(out / "damaged"):
            (out / "damaged").mkdir(exist_ok=True)
            for path in dict.fromkeys(problem.path for problem in problems if problem.damaged and problem.movable):
                if path.exists():
                    moved.append(_move(path, out / "damaged" / path.relative_to(out)))
    finally:
        lock.release()
    return moved


def _move(path: Path, wanted: Path) -> Path:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    names = (wanted.with_name(f"{wanted.name}.{again}") if again else wanted for again in range(10_000))
    target = next(name for name in names if not name.exists())
    path.rename(target)
    sync(target.parent)
    return target


def verify(out: Path) -> list[Problem]:
    """Everything in the folder that is not as it was written."""
    return Verifier(out).problems()

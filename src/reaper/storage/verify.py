"""Whether an output folder is whole, and what to do about what is not.

Everything in it is read and held against its checksum. Nothing is changed, unless damage is to be set aside: then it is
moved to OUT/damaged, so that the command of the run makes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reaper.errors import DamagedArtefact, ReaperError, UserError
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.files import Lock, storing, sync
from reaper.storage.store import STAGE_LISTS, Store, known_tasks
from reaper.study.conditions import OBJECTIVES

TITLES = {  # conditions of one seed share their teachers
    "teachers": "teacher of {task} (seed {seed})",
    "generators": "short-term generator of {task} (seed {seed})",
    "memories": "long-term memory of {condition} after {task} (seed {seed})",
    "evaluations": "evaluation of {condition} after {task} (seed {seed})",
    "singles": "evaluation of the teacher of {task} (seed {seed})",
}


WRITTEN_AGAIN = "written again by the command of that run"


@dataclass(frozen=True)
class Problem:
    """Something that is not as it was written."""

    path: Path  # what `set_aside` moves
    what: str
    remedy: str
    damaged: bool = True  # False: a leftover that nobody reads
    harmless: bool = False  # nothing has to be made again
    movable: bool = True  # False: something is missing, and what is there is whole

    def __str__(self) -> str:
        return f"{'harmless: ' if self.harmless else ''}{self.what}; {self.remedy}"


@dataclass(frozen=True)
class Origin:
    """What a stage is and what it was made from, as the record of a run tells it."""

    title: str
    parents: tuple[str, ...]  # digests
    command: str
    inherited: bool = False  # from elsewhere


class Verifier:
    """One look at everything in an output folder."""

    def __init__(self, out: Path) -> None:
        self.out, self.store = out, Store(out)
        if not any((out / name).exists() for name in ("reaper.json", "stages", "runs")):
            raise UserError(f"{out} is not a run of reaper: it has no reaper.json")
        self.runs: list[dict[str, Any]] = []
        self.experiments: list[dict[str, Any]] = []
        self.broken_records = [
            *self._records("runs", self.store.run, self.runs),
            *self._records("experiments", self.store.experiment, self.experiments),
        ]
        origins = [origin for record in self.experiments for origin in _further_origins(record, out)]
        self.origins = dict([*origins, *(origin for record in self.runs for origin in _origins(record, out))])
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
            _ = self.store.common
        except UserError as error:
            yield Problem(self.out / "reaper.json", _said(error), f"written again by {self._command()}")

    def _records(
        self, part: str, read: Callable[[str], dict[str, Any]], found: list[dict[str, Any]]
    ) -> Iterator[Problem]:
        for name in self.store.record_names(part):
            try:
                found.append(read(name))
            except DamagedArtefact as error:
                yield Problem(self.out / part / f"{name}.json", _said(error), WRITTEN_AGAIN)

    def _command(self) -> str:
        commands = sorted({origin.command for origin in self.origins.values()})
        return commands[0] if len(commands) == 1 else "the command of its run"

    def _damage(self, digest: str) -> ReaperError | None:
        try:
            self.store.stage(digest).check()
        except ReaperError as error:
            return error if self.store.has(digest) else None  # set aside by someone else meanwhile
        return None

    def _strays(self) -> Iterator[Problem]:
        """Records are written before the first stage of a run, so stages without one have lost it."""
        strays = [digest for digest in self.store.stages() if digest not in self.origins]
        if strays and not self.broken_records:
            what = f"{self.out / 'runs'} lacks a record: {len(strays)} stages belong to no run, such as {strays[0]}"
            yield Problem(self.out / "runs", what, WRITTEN_AGAIN, movable=False)

    def _stages(self) -> Iterator[Problem]:
        for digest, error in self.damage.items():
            yield Problem(self.store.path_of(digest), _said(error), self._remedy(digest))
        for digest in self.store.stages():
            if digest not in self.damage:
                yield from self._thinned(digest)
                manifest = self.store.stage(digest).manifest
                for parent in manifest["spec"].get("parents", {}).values():
                    if not self.store.has(parent):
                        path, title = self.store.path_of(parent), manifest.get("title", digest)
                        yield Problem(path, f"{path}, which {title} was made from, is missing", self._remedy(parent))

    def _thinned(self, digest: str) -> Iterator[Problem]:
        artefact = self.store.stage(digest)
        if artefact.left_out:
            what = f"{artefact.folder} is here without {', '.join(sorted(artefact.left_out))}"
            remedy = f"left out on its way; {self._remedy(digest)}"
            yield Problem(artefact.folder, what, remedy, damaged=False, harmless=True, movable=False)

    def _remedy(self, digest: str) -> str:
        origin = self.origins.get(digest)
        if origin is None:
            return "made again by the command of its run, whose record is missing"
        if origin.inherited:
            return f"{origin.title}: brought in again by {origin.command}"
        if not origin.parents:
            return f"{origin.title}: learnt again from scratch by {origin.command}"
        parents = " and ".join(f"{self._title(parent)} ({self._state(parent)})" for parent in origin.parents)
        return f"{origin.title}: made again from {parents} by {origin.command}"

    def _title(self, digest: str) -> str:
        return self.origins[digest].title if digest in self.origins else f"stage {digest}"

    def _state(self, digest: str) -> str:
        if digest in self.damage:
            return "damaged too"
        return "whole" if self.store.has(digest) else "missing, to be made first"

    def _checkpoints(self) -> Iterator[Problem]:
        for digest in self.store.unfinished_stages():
            shelf = CheckpointDir(self.store.unfinished(digest), digest)
            if self.store.has(digest):
                yield _leftover(shelf.folder, "its stage is finished")
                continue
            numbers = shelf.numbers()
            damage = {number: error for number in numbers if (error := _checkpoint_damage(shelf, number))}
            good = [number for number in numbers if number not in damage]
            for number, error in damage.items():
                title = self._title(digest)
                remedy = (
                    f"{title} goes on from checkpoint {good[-1]}"
                    if good
                    else f"{title} starts anew once this is set aside (--set-aside)"
                )
                yield Problem(shelf.folder / str(number), _said(error), remedy, harmless=bool(good))

    def _leftovers(self) -> Iterator[Problem]:
        for pattern in (".*.part", "*/.*.part", "unfinished/*/.*.part"):
            for path in self.out.glob(pattern):
                yield _leftover(path, "a process was killed while it wrote it")


def _checkpoint_damage(shelf: CheckpointDir, number: int) -> ReaperError | None:
    try:
        shelf.opened(number).check()
    except ReaperError as error:
        return error if number in shelf.numbers()[-2:] else None  # a newer one took its place meanwhile
    return None


def _leftover(path: Path, why: str) -> Problem:
    return Problem(path, f"{path} is a leftover", f"{why}, and the next run removes it", damaged=False, harmless=True)


def _said(error: ReaperError) -> str:
    return f"{error.path} {error.what}" if isinstance(error, DamagedArtefact) else str(error)


def _origins(record: dict[str, Any], out: Path) -> Iterator[tuple[str, Origin]]:
    """Every stage of a run with its parents: what its own manifest, if it could still be read, would say."""
    objective = OBJECTIVES.get(record["condition"].get("objective", ""))
    command = _command(record, out)

    def at(role: str, place: int) -> list[str]:
        return [record[role][place]] if 0 <= place < len(record[role]) else []

    known = known_tasks(record)
    if known:
        memory, evaluation = record["memories"][known - 1], record["evaluations"][known - 1]
        yield memory, Origin(f"long-term memory from {record['continued'].get('from')}", (), command, True)
        yield evaluation, Origin("its evaluation", (memory,), command)
    for role in STAGE_LISTS:
        for place, digest in enumerate(record[role]):
            if place < known:
                continue
            taught = objective is None or objective.needs_teacher or place == 0
            parents = {
                "teachers": [],
                "generators": at("teachers", place),
                "memories": [
                    *(at("teachers", place) if taught else []),
                    *at("generators", place),
                    *at("memories", place - 1),
                ],
                "evaluations": at("memories", place),
                "singles": at("teachers", place),
            }[role]
            names = {"condition": record["condition"]["name"], "seed": record["seed"], "task": record["tasks"][place]}
            yield digest, Origin(TITLES[role].format(**names), tuple(parents), command)
    if record["random"]:
        yield record["random"], Origin(f"evaluation of random play (seed {record['seed']})", (), command)


def _command(record: dict[str, Any], out: Path) -> str:
    return f"`{record.get('command') or 'the command of this run'} --out {out}`"


def _further_origins(record: dict[str, Any], out: Path) -> Iterator[tuple[str, Origin]]:
    """The stages that an experiment adds to those of its runs."""
    for row in record["stages"]:
        yield row["digest"], Origin(row["title"], tuple(row["parents"]), _command(record, out))


def set_aside(out: Path, problems: list[Problem]) -> list[Path]:
    """Moves what is damaged to OUT/damaged, under its own name; where it is now. Nothing is deleted."""
    lock = Lock(out / "locks" / "run")
    if not lock.take():
        raise UserError(f"another run is writing to {out}; wait for it before damage is set aside")
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

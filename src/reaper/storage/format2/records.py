"""Headers and records of format 2, converted to format 3."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reaper.storage.format2 import names
from reaper.storage.format2.chains import OldStage
from reaper.storage.format2.specs import convert_parents, convert_retention, convert_settings, convert_title
from reaper.storage.records import (
    ROLES,
    AnalysisStageEntry,
    ContinuedFrom,
    ExperimentRecord,
    RunRecord,
    StageEntry,
    StoreHeader,
)

Json = dict[str, Any]
DigestNow = Callable[[str], str]


def convert_header(header: Mapping[str, Any]) -> StoreHeader:
    return StoreHeader(header["version"], header["scale"], header["fraction"], convert_settings(header["settings"]))


def convert_condition(condition: Mapping[str, Any]) -> Json:
    changed = {
        "objective": names.OBJECTIVES.get(condition["teaching"], condition["teaching"]),
        "retention": convert_retention(condition["retention"]),
        "variant": condition["scale"],
        "overrides": convert_overrides(condition["overrides"]),
    }
    unchanged = {name: condition[name] for name in ("name", "knowledge", "reverse", "about")}
    return {**unchanged, "base": condition.get("base", ""), **changed}  # the first versions had no sweeps


def convert_overrides(overrides: Mapping[str, Any]) -> Json:
    """Settings by dotted names with hyphens, as on a command line."""
    return {now: value for name, value in overrides.items() for now in flags_now(name)}


def flags_now(name: str) -> list[str]:
    """The flags that replace one, without leading hyphens."""
    if "." not in name:
        return [names.OPTIONS.get(name, name)]
    known = names.SETTINGS.get(name.replace("-", "_"))
    return [now.replace("_", "-") for now in known[1]] if known else [name]


def convert_command(command: str) -> str:
    """The command line that runs the same study now."""
    words: list[str] = []
    try:
        given = shlex.split(command)
    except ValueError:
        return command
    for place, word in enumerate(given):
        if place and given[place - 1].startswith("--") and len(flags_now(given[place - 1][2:])) > 1:
            continue  # the value of a flag that was written with each of its new names
        now = flags_now(word[2:]) if word.startswith("--") else []
        value = given[place + 1 : place + 2] if len(now) > 1 else []
        words += [part for flag in now for part in (f"--{flag}", *value)] or [word]
    return shlex.join(words)


def convert_run(record: Mapping[str, Any], stages: Mapping[str, OldStage], digest_now: DigestNow) -> RunRecord:
    """A run's record; `stages` are those of format 2 whose specs are known, by digest."""
    continued = record.get("continued")
    known = {digest: stages[digest] for digest in _own_stages(record) if digest in stages}
    roles: dict[str, Any] = {role: _now(record[role], digest_now) for role in ROLES}
    return RunRecord(
        name=record["name"],
        condition=convert_condition(record["condition"]),
        sequence=record["sequence"],
        tasks=tuple(record["tasks"]),
        titles=tuple(record["titles"]),
        num_actions=record["actions"],
        seed=record["seed"],
        command=convert_command(record.get("command", "")),
        settings=convert_settings(record["settings"]),
        **roles,
        random=digest_now(record["random"]) if record["random"] else None,
        stages={digest_now(digest): _entry(stage, digest_now) for digest, stage in known.items()},
        continued=ContinuedFrom(continued["from"], continued["contents"], continued["tasks"]) if continued else None,
    )


def _entry(stage: OldStage, digest_now: DigestNow) -> StageEntry:
    return StageEntry.of(convert_title(stage.title), convert_parents(stage.spec["parents"], digest_now))


def _now(digests: Iterable[str], digest_now: DigestNow) -> tuple[str, ...]:
    return tuple(digest_now(digest) for digest in digests)


def _own_stages(record: Mapping[str, Any]) -> list[str]:
    """Digests of a run's stages, parents first; the stages that made a memory it continues from are not among them."""
    known = int(record.get("continued", {}).get("tasks", 0))
    memory = max(0, known - 1)
    begins = {"memories": memory, "evaluations": memory}
    found = [digest for role in ROLES for digest in record[role][begins.get(role, known) :]]
    return [*found, record["random"]] if record["random"] else found


def convert_experiment(record: Mapping[str, Any], digest_now: DigestNow) -> ExperimentRecord:
    return ExperimentRecord(
        name=record["name"],
        experiment=record["experiment"],
        sequence=record["sequence"],
        tasks=tuple(record["tasks"]),
        titles=tuple(record["titles"]),
        seed=record["seed"],
        command=convert_command(record["command"]),
        runs=tuple(record["runs"]),
        stages=tuple(
            AnalysisStageEntry(
                digest=digest_now(row["digest"]),
                title=convert_title(row["title"]),
                parents=_now(row["parents"], digest_now),
                role=row["role"],
                about=convert_about(row["about"]),
            )
            for row in record["stages"]
        ),
    )


def convert_about(about: Mapping[str, Any]) -> Json:
    return {**about, **({"items": names.ITEMS.get(about["items"], about["items"])} if "items" in about else {})}

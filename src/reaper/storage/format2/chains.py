"""The specs of a run's stages in format 2, derived from its record as version 0.1 derived them.

A record has only digests, and a stage that is not finished has no manifest yet. To name its checkpoints in format 3,
its spec is derived again; whether it is the right one shows in its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reaper.storage.files import digest_of
from reaper.storage.format2 import names

Json = dict[str, Any]
# Overrides of a condition that had no effect on its first long-term memory.
FROM_SECOND_TASK = ("long-term.alpha", "ewc.strength", "ewc.online-strength", "ewc.online-decay")
EXTENDED_ALPHA = 0.05  # the `extended` variant replaced the alpha of the preset by this


class OldStage(NamedTuple):
    """A stage of format 2."""

    spec: Mapping[str, Any]
    title: str

    @property
    def digest(self) -> str:
        return digest_of(self.spec)


class ChainBuilder:
    """Derives the stages of one run."""

    def __init__(self, record: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        self.record, self.settings, self.base = record, record["settings"], header["settings"]
        self.condition, self.tasks, self.seed = record["condition"], record["tasks"], record["seed"]

    def stages(self) -> Iterator[OldStage]:
        """All stages of the run, parents first."""
        record, known = self.record, int(self.record.get("continued", {}).get("tasks", 0))
        for i, task in enumerate(self.tasks):
            yield self._stage(f"learn {task}", "short-term", {}, task=task)
            if record["generators"]:
                parents = {"teacher": record["teachers"][i]}
                yield self._stage(f"dream of {task}", "short-term generator", parents, task=task)
        for i in range(known, len(record["memories"])):
            yield self._memory(i)
        for i in range(len(record["evaluations"])):
            title = f"{self._owner(i)}: evaluate after {self.tasks[i]}"
            yield self._stage(title, "evaluate", {"subject": digest_at(record["memories"], i)}, tasks=self.tasks)
        for i, task in enumerate(self.tasks):
            yield self._stage(f"evaluate single {task}", "evaluate", {"subject": record["teachers"][i]}, tasks=[task])
        yield self._stage("evaluate random play", "evaluate", {}, tasks=self.tasks)

    def _owner(self, place: int) -> str:
        """The points of a sweep share their first stages."""
        return (not place and self.condition.get("base")) or self.condition["name"]

    def _memory(self, i: int) -> OldStage:
        record, teaching = self.record, self.condition["teaching"]
        parents = {
            "memory": record["memories"][i - 1] if i else None,
            "teacher": record["teachers"][i] if teaching != "reinforce" or i == 0 else None,
            "generator": record["generators"][i] if teaching == "distil dreams" else None,
        }
        axes = {axis: self.condition[axis] for axis in ("teaching", "retention", "knowledge")}
        title = f"{self._owner(i)}: consolidate {self.tasks[i]}"
        given = {role: digest for role, digest in parents.items() if digest}
        stage = self._stage(title, "consolidate", given, tasks=self.tasks[: i + 1], axes=axes)
        return stage if i else stage._replace(spec={**stage.spec, "settings": self._first_settings()})

    def _first_settings(self) -> Json:
        """Without the condition's overrides that had no effect yet."""
        settings = {group: dict(values) for group, values in self.settings.items()}
        for dotted in self.condition["overrides"].keys() & set(FROM_SECOND_TASK):
            group, _, name = dotted.replace("-", "_").partition(".")
            settings[group][name] = self.base[group][name]
            if self.condition["scale"] == "extended" and dotted == "long-term.alpha":
                settings[group][name] = EXTENDED_ALPHA
        return settings

    def _stage(self, title: str, kind: str, parents: Mapping[str, str], **inputs: Any) -> OldStage:
        return stage_of(title, kind, self.record, parents=parents, **inputs)


def stage_of(title: str, kind: str, record: Mapping[str, Any], **inputs: Any) -> OldStage:
    groups = names.GROUPS.get(kind)
    settings = {name: part for name, part in record["settings"].items() if groups is None or name in groups}
    common: Json = {"format": names.FORMAT, "kind": kind, "settings": settings, "seed": record["seed"]}
    if kind != "overlap":
        common["actions"] = record["actions"]
    return OldStage({**common, **inputs}, f"{title} (seed {record['seed']})")


def digest_at(digests: list[str], place: int) -> str:
    return digests[place] if place < len(digests) else ""


def analysis_stages(experiment: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]]) -> Iterator[OldStage]:
    """The stages that an experiment adds; each is derived from the run whose stages it analyses."""
    for row in experiment["stages"]:
        for record in (runs[name] for name in experiment["runs"] if name in runs):
            for stage in _candidates(row, record):
                if stage.digest == row["digest"]:
                    yield stage


def _candidates(row: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[OldStage]:
    role, about, parents = row["role"], row["about"], row["parents"]
    title = row["title"].rpartition(" (seed ")[0]
    if role == "generator":
        (task,) = about["tasks"]
        yield stage_of(title, "short-term generator", record, parents={"teacher": parents[0]}, task=task)
    elif role == "student":
        sources = {f"source {i + 1}": digest for i, digest in enumerate(parents[1:])}
        given = {"teacher": parents[0], **sources}
        yield stage_of(title, "student", record, parents=given, tasks=about["tasks"], items=about["items"])
    elif role == "evaluation":
        yield stage_of(title, "evaluate", record, parents={"subject": parents[0]}, tasks=about["tasks"])
    elif role == "fisher":
        given = {"agent": parents[0], "player": parents[1]}
        yield from (stage_of(title, "fisher", record, parents=given, task=task) for task in record["tasks"])
    elif role == "overlap":
        given = {f"fisher {i + 1}": digest for i, digest in enumerate(parents)}
        yield stage_of(title, "overlap", record, parents=given, tasks=record["tasks"])

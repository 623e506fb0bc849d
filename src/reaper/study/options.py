"""The options of a study, from the command line (or `reaper.run`) to the engine.

One dataclass holds them all. The command-line parser is generated from its fields, so a new option is one field here
and the one place that reads it.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from reaper.config.presets import PRESETS
from reaper.errors import UserError, unknown

DEFAULT_TASKS = "arcade-3"
DEFAULT_CONDITION = "RePR"  # of consolidating teachers from elsewhere
MAX_AGENT_STEPS = 10**12
MAX_WORKERS = 10_000  # more is a slip of the finger
STUDIES = ("run", "consolidate")  # commands that learn a sequence of tasks
LOGS = ("auto", "plain", "json", "bars")  # forms of `--log`


def option(
    default: Any,
    help: str,
    *,
    type: type = str,
    metavar: str | None = None,
    defines_study: bool = False,
    only_for: tuple[str, ...] = (),
) -> Any:
    """A field that is also a command-line flag.

    `defines_study` marks an option that results depend on: it is part of the command that a report shows for
    reproducing a run. `only_for` names the only commands that have the flag.
    """
    metadata = {"help": help, "type": type, "metavar": metavar, "defines_study": defines_study, "only_for": only_for}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What to learn, what to run it with, and where the results go."""

    tasks: str | None = option(
        None,
        "tasks and sequences (see `reaper tasks`), separated by commas (default: arcade-3, or the experiment's)",
        defines_study=True,
    )
    seeds: Sequence[int] = option((0,), "one run per seed", type=int, metavar="SEED", defines_study=True)
    fraction: float = option(1.0, "share of the training budget, above 0 and at most 1", type=float, defines_study=True)
    agent_steps: str | None = option(
        None,
        "the budget instead of --fraction: agent steps of short-term training per task (2m, 500k, 20000), to which all "
        "other durations are scaled",
        metavar="STEPS",
        defines_study=True,
    )
    preset: str | None = option(
        None,
        f"the settings to start from: {', '.join(PRESETS)} (default: the one made for the tasks, or that of --out)",
        metavar="NAME",
        defines_study=True,
    )
    continue_from: str | Path | None = option(  # noqa: RUF009 - a dataclass field
        None,
        "teach a long-term memory further tasks: pretrained:NAME, a pack of weights, or another output folder",
        metavar="MEMORY",
        defines_study=True,
        only_for=STUDIES,
    )
    from_condition: str | None = option(
        None,
        "with --continue-from: which condition of that folder",
        metavar="NAME",
        defines_study=True,
        only_for=STUDIES,
    )
    from_seed: int | None = option(
        None,
        "with --continue-from: which seed of that folder",
        type=int,
        metavar="SEED",
        defines_study=True,
        only_for=STUDIES,
    )
    reuse: Sequence[Path] = option(
        (),
        "packs or output folders, also with other settings, whose finished stages are taken instead of run again: "
        "teachers, for example",
        type=Path,
        metavar="SOURCE",
        only_for=(*STUDIES, "experiment"),
    )
    out: Path = option(Path("runs/latest"), "output folder", type=Path)  # noqa: RUF009 - a dataclass field
    device: str = option("auto", "auto, cpu or cuda")
    workers: int | None = option(
        None, "stages run at the same time (default: one per core for small networks, else 1)", type=int, metavar="N"
    )
    checkpoint_every: str = option(
        "10m",
        "the most work that a killed run loses: minutes (10m), seconds (30s) or agent steps (50000)",
        metavar="INTERVAL",
    )
    emulator_threads: int | None = option(
        None,
        "threads that step the environments of one Atari task (default: one per core, two with a GPU)",
        type=int,
        metavar="N",
    )
    env_workers: int | None = option(
        None,
        "processes that step the copies of one Gymnasium environment; 0: the stage's own process (default: measured)",
        type=int,
        metavar="N",
    )
    concurrent_eval: bool = option(
        True, "evaluate in the training process, also with a large network on a GPU, where a separate process is faster"
    )
    share: bool = option(False, "let several processes, also on other machines, work on the same --out")
    engine: str = option(
        "local", "what runs the stages: local, ray, or a plugin (see `reaper engines`)", metavar="NAME"
    )
    tensorboard: bool = option(True, "write no TensorBoard curves to OUT/tensorboard")
    report: bool = option(True, "end without tables and without the report page; `reaper report` writes them later")
    wandb: bool = option(False, "also log curves, images and scores to Weights & Biases")
    log: str = option(
        "auto",
        "how progress is shown: plain (lines of text), json (one object per event), bars, or auto: bars in a terminal, "
        "else plain",
        metavar="FORM",
    )
    quiet: bool = option(False, "show no progress")
    teachers: Mapping[str, Any] = field(default_factory=dict)  # task -> the source of a teacher from elsewhere
    overrides: Mapping[str, Any] = field(default_factory=dict)  # settings by dotted name: {"long-term.alpha": 0.5}
    engine_options: Mapping[str, Any] = field(default_factory=dict)  # the engine's own options: {"address": "auto"}

    @classmethod
    def of(cls, **options: Any) -> StudyOptions:
        """The same as the constructor, but an unknown name is a one-line error."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise unknown("option", name, known)
        return cls(**options)

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", Path(self.out))
        object.__setattr__(self, "seeds", tuple(self.seeds))
        sources = [self.reuse] if isinstance(self.reuse, str | Path) else self.reuse
        object.__setattr__(self, "reuse", tuple(map(Path, sources)))
        if not (math.isfinite(self.fraction) and 0 < self.fraction <= 1):
            raise UserError(f"--fraction must be above 0 and at most 1, not {self.fraction}")
        if self.agent_steps is not None:
            count_from(self.agent_steps)
            if self.fraction != 1:
                raise UserError("--agent-steps and --fraction both set the budget; give one of them")
        if not self.seeds or any(seed < 0 for seed in self.seeds):
            raise UserError(f"--seeds must be whole numbers of at least 0, not {list(self.seeds)}")
        for name, least in (("workers", 1), ("emulator_threads", 1), ("env_workers", 0)):
            value = getattr(self, name)
            if value is not None and not least <= value <= MAX_WORKERS:
                raise UserError(f"{flag(name)} must lie between {least} and {MAX_WORKERS:,}, not {value}")
        if self.log not in LOGS:
            raise unknown("--log", self.log, LOGS)
        if self.continue_from is None and not (self.from_condition is None and self.from_seed is None):
            raise UserError("--from-condition and --from-seed go with --continue-from")

    def fraction_of(self, agent_steps: int) -> float:
        """The share of a preset's budget, given its agent steps of short-term training."""
        return self.fraction if self.agent_steps is None else count_from(self.agent_steps) / agent_steps

    def command(self, *words: str) -> str:
        """The command line that runs the same study: `words` (`run RePR`) and the options that results depend on."""
        given = []
        for f in fields(self):
            value = getattr(self, f.name)
            if f.metadata.get("defines_study") and value != f.default:
                values = value if isinstance(value, tuple) else [value]
                given += [flag(f.name), *map(str, values)]
        for task, source in self.teachers.items():
            given += ["--teacher", f"{task}={source}"]
        for name, value in self.overrides.items():
            given += [flag(name), str(value)]
        return shlex.join(["reaper", *words, *given])


def count_from(text: str | int) -> int:
    """A number of agent steps as people write it: 2m, 500k, 20000."""
    word = str(text).strip().lower()
    factor = {"k": 1_000, "m": 1_000_000}.get(word[-1:], 1)
    try:
        count = float(word[:-1] if factor > 1 else word) * factor
    except ValueError:
        count = math.nan
    if not (math.isfinite(count) and 1 <= count <= MAX_AGENT_STEPS and count == int(count)):
        raise UserError(f"--agent-steps takes a number of agent steps such as 2m, 500k or 20000, not {str(text)!r}")
    return int(count)


def flag(name: str) -> str:
    """A name as it is typed: `checkpoint_every` is `--checkpoint-every`."""
    return "--" + name.replace("_", "-")


def flags_for(command: str) -> list[Field[Any]]:
    """The options that a command has as flags."""
    return [
        f
        for f in fields(StudyOptions)
        if f.metadata and (not f.metadata["only_for"] or command in f.metadata["only_for"])
    ]

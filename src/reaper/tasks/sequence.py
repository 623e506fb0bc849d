"""Task sequences: which tasks, in which order, with which shared observation and action set."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from reaper.config.settings import ObservationSettings, Settings
from reaper.errors import UserError, unknown
from reaper.plugins import Registry
from reaper.tasks.arcade import ARCADE
from reaper.tasks.boards import BoardImages, image_side
from reaper.tasks.identity import IdentifiedTask, place_of
from reaper.tasks.more_arcade import MORE_ARCADE
from reaper.tasks.observation import BOARD, IMAGE, VECTOR, ObservationSpec, state_spec
from reaper.tasks.scaling import Scale, ScaledVectors, measure_scale
from reaper.tasks.task import EnvOptions, Task, VectorTask
from reaper.tasks.titles import distinct

ARCADE_3 = ("catch", "dodge", "shooter")
ARCADE_6 = (*ARCADE_3, "pong", "frog", "chase")
ARCADE_12 = (*ARCADE_6, "bricks", "snake", "flyer", "stacker", "lift", "sorter")
ATARI_3 = ("ALE/RoadRunner-v5", "ALE/Boxing-v5", "ALE/Jamesbond-v5")
ATARI_6 = (*ATARI_3, "ALE/Pong-v5", "ALE/Atlantis-v5", "ALE/Qbert-v5")
CLASSIC_3 = ("CartPole-v1", "Acrobot-v1", "LunarLander-v3")
MINIGRID_3 = tuple(f"minigrid:MiniGrid-{name}-v0" for name in ("LavaGapS5", "DoorKey-5x5", "Dynamic-Obstacles-5x5"))

SEQUENCES: dict[str, tuple[str, ...]] = {
    "arcade-3": ARCADE_3,
    "arcade-6": ARCADE_6,
    "arcade-12": ARCADE_12,
    "classic-3": CLASSIC_3,
    "minigrid-3": MINIGRID_3,
    "atari-3": ATARI_3,
    "atari-3-rev": ATARI_3[::-1],
    "atari-6": ATARI_6,
}

# What to change where a task does not fit the settings.
SETTINGS_BY_KIND = {
    IMAGE: "--preset, --observation.frame-size or --observation.colour",
    VECTOR: "--observation.features",
    BOARD: "--observation.channels and --observation.frame-size",
}

TASKS: Registry[Callable[[], Task] | Task] = Registry("task", "reaper.tasks")
for _name, _task in (ARCADE | MORE_ARCADE).items():
    TASKS[_name] = _task


def register_task(name: str, task: Task | Callable[[], Task]) -> None:
    """Registers a task, or a function that builds it, under a name."""
    TASKS[name] = task


def find_task(name: str) -> Task:
    """A registered task, an Atari game or any Gymnasium id."""
    if name in TASKS:
        task = TASKS[name]
        return task if isinstance(task, Task) else task()
    if name in SEQUENCES:
        raise UserError(f"{name} is not a task but a sequence of tasks: {', '.join(SEQUENCES[name])}")
    if name.startswith("ALE/"):
        from reaper.tasks.atari import atari_task

        return atari_task(name)
    from gymnasium import registry

    if name not in registry and ":" not in name and "/" not in name:
        raise unknown("task", name, [*SEQUENCES, *TASKS, *registry])
    from reaper.tasks.gymnasium import gymnasium_task

    return gymnasium_task(name)


@dataclass(frozen=True)
class Sequence:
    """Tasks to be learnt one after another by one network, so with one observation and one action set."""

    name: str
    tasks: tuple[Task, ...]
    min_actions: int = 0  # of a network that was made for more actions

    @property
    def file_name(self) -> str:
        """Its name as part of file names."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.name).strip("-")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    @property
    def titles(self) -> tuple[str, ...]:
        return distinct([task.title for task in self.tasks], self.names)

    @property
    def num_actions(self) -> int:
        """The largest action set, one output of the network each; a task with n actions uses the first n of them."""
        return max(self.min_actions, *(task.num_actions for task in self.tasks))

    @property
    def preset(self) -> str:
        """The preset whose numbers fit these tasks."""
        if self.kind in (VECTOR, BOARD):
            return self.kind
        return "arcade" if all(task.observation for task in self.tasks) else "modern"

    @property
    def paper_preset(self) -> str:
        """The preset for reproducing the paper on these tasks."""
        return "paper" if self.preset == "modern" else self.preset

    @property
    def kind(self) -> str:
        """The kind of observation that its tasks share."""
        first = self.tasks[0].observation
        return first.kind if first else IMAGE

    def observation(self, settings: ObservationSettings) -> ObservationSpec:
        """What an agent of these tasks sees; a task that cannot be observed so is refused."""
        state = state_spec(self._completed(settings))
        for task in self.tasks:
            if not seen_as(task.observation, state.frame.without_identity):
                which = SETTINGS_BY_KIND[self.kind]
                raise UserError(
                    f"{task.name} emits {task.observation or 'images'}, and these settings ask for {state.frame}; "
                    f"choose another {which}"
                )
        return state

    def _completed(self, settings: ObservationSettings) -> ObservationSettings:
        if settings.task_id != "none" and not settings.task_names:
            settings = replace(settings, task_names=",".join(self.names))
        emitted = [task.observation for task in self.tasks if task.observation]
        if self.kind == VECTOR and not settings.features:
            return replace(settings, features=max(each.size for each in emitted))
        if self.kind == BOARD and not settings.channels:
            side = max(image_side(max(each.shape[1:])) for each in emitted)
            return replace(settings, channels=max(each.shape[0] for each in emitted), frame_size=side)
        return settings

    def complete(self, settings: Settings) -> Settings:
        """The settings, with what only the tasks know about observations: the length of vectors, the size of boards,
        and the scale of each task with vectors that has none yet. Settings for images stay as they are."""
        self.observation(settings.observation)
        settings = replace(settings, observation=self._completed(settings.observation))
        for name in self.names:
            place_of(name, settings.observation)  # raises an error if a task has none
        if self.kind != VECTOR:
            return settings
        scales = {**settings.scales}
        for task in self.tasks:
            if task.name not in scales:
                measured = measure_scale(task)
                scales[task.name] = (measured.centres, measured.units)
        return replace(settings, scales=scales)

    @property
    def notices(self) -> list[str]:
        """What a user should know about these tasks."""
        fewer = [
            f"{name} has {num_actions} of the sequence's {self.num_actions} actions; the others are never chosen there"
            for name, num_actions in self.fewer_actions.items()
        ]
        random = [task.name for task in self.tasks if task.is_deterministic and not task.is_deterministic()]
        return fewer + [
            f"{name} is not deterministic under a seed: results cannot be repeated exactly, and a stage that is "
            "interrupted has to start again"
            for name in random
        ]

    @property
    def fewer_actions(self) -> dict[str, int]:
        """The number of actions of each task that has fewer than the sequence."""
        return {task.name: task.num_actions for task in self.tasks if task.num_actions < self.num_actions}

    def reversed(self) -> Sequence:
        name = self.name[: -len("-rev")] if self.name.endswith("-rev") else f"{self.name}-rev"
        return Sequence(name, self.tasks[::-1])


def find_sequence(text: str) -> Sequence:
    """Names of tasks and of sequences, separated by commas; a sequence stands for its tasks."""
    given = [name.strip() for name in text.split(",") if name.strip()]
    names = [task for name in given for task in SEQUENCES.get(name, (name,))]
    if not names:
        raise UserError("--tasks needs sequences or task names separated by commas")
    if twice := next((name for name in names if names.count(name) > 1), None):
        within = [f"{name} is {', '.join(SEQUENCES[name])}" for name in given if twice in SEQUENCES.get(name, ())]
        why = f" ({'; '.join(within)})" if within and len(given) > 1 else ""
        raise UserError(f"--tasks {text}: {twice} occurs twice{why}; a task may occur only once in a sequence")
    # Another spelling of the same tasks is the same sequence; a name or a plain list stays as it was written.
    expanded = len(given) > 1 and any(name in SEQUENCES for name in given)
    sequence = Sequence(",".join(names) if expanded else text, tuple(find_task(name) for name in names))
    first = sequence.tasks[0]
    for task in sequence.tasks:
        if not _alike(task.observation, first.observation):
            raise UserError(
                f"--tasks {text}: {task.name} emits {_emitted(task)} and {first.name} {_emitted(first)}; one network "
                "cannot see both"
            )
    return sequence


def _alike(one: ObservationSpec | None, other: ObservationSpec | None) -> bool:
    """Whether one network can see both; vectors may differ in length, and boards in size."""
    return one == other or (one is not None and other is not None and one.kind == other.kind != IMAGE)


def seen_as(emitted: ObservationSpec | None, frame: ObservationSpec) -> bool:
    """Whether what a task emits can be shown to an agent that sees such observations."""
    if emitted is None:
        return frame.kind == IMAGE
    if emitted.kind == BOARD:
        return frame.kind == IMAGE and all(map(operator.le, emitted.shape, frame.shape))
    return emitted == frame or (emitted.kind == frame.kind == VECTOR and emitted.size <= frame.size)


def _emitted(task: Task) -> str:
    return str(task.observation or "resizable images")


def open_task(task: Task, options: EnvOptions) -> VectorTask:
    """The environments of a task, with the sequence's observation and the task's own actions."""
    if options.place is not None:
        inner = replace(options, observation=options.observation.without_identity, place=None)
        return IdentifiedTask(open_task(task, inner), options.place, options.observation)
    if not seen_as(task.observation, options.observation):
        raise UserError(f"{task.name} emits {_emitted(task)}, not {options.observation}")
    emitted = task.observation
    converted = emitted is not None and emitted.kind != IMAGE
    envs = task.open(replace(options, observation=emitted) if converted else options)
    if envs.num_actions != task.num_actions:
        own, given = task.num_actions, envs.num_actions
        raise UserError(f"{task.name} is a task with {own} actions, but its environments have {given}")
    if emitted is None or emitted.kind == IMAGE:
        return envs
    if emitted.kind == BOARD:
        return BoardImages(envs, options.observation)
    scale = Scale.of(task.name, options.scale, emitted.size) if options.scale else measure_scale(task)
    return ScaledVectors(envs, scale, options.observation)


def match_task(sequence_names: tuple[str, ...], wanted: str) -> str:
    """The task a user means by a short name, such as Boxing for ALE/Boxing-v5."""

    def plain(name: str) -> str:
        return name.removeprefix("ALE/").split("-v")[0].replace(" ", "").replace("_", "").lower()

    for name in sequence_names:
        # Gymnasium imports the module before a colon, so such a name has to be given in full.
        if wanted == name or (":" not in name and plain(wanted) == plain(name)):
            return name
    raise unknown("task", wanted, sequence_names)

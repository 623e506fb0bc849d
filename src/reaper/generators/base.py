"""Generators: models that learn the states of the tasks so far and then generate pseudo-items.

A generator is a frozen dataclass whose fields are its hyper-parameters. To add one, subclass `Generator` and
`GeneratorTraining` in a new file and register the class (generators/__init__.py, or `reaper.register_generator`).
Everything else uses only what is declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch

from reaper.context import Context
from reaper.errors import UserError
from reaper.memory.items import Items, StateSource, empty_states
from reaper.randomness import RNG
from reaper.state import Parts, Rows, State
from reaper.storage.checkpoints import check_finite
from reaper.tasks.observation import ObservationSpec

Tensors = Mapping[str, torch.Tensor]

PART = 1000  # pseudo-items generated between two reports of progress


class FittedGenerator(ABC):
    """A generator that can be sampled from."""

    @abstractmethod
    def sample(self, count: int, rng: torch.Generator, chunk: int = 1000) -> torch.Tensor:
        """Generates states (count, *observation) on the device of `rng`, computing `chunk` of them at a time."""

    @abstractmethod
    def state(self) -> dict[str, torch.Tensor]:
        """The tensors from which `Generator.load` restores it: all that a long-term memory keeps of earlier tasks."""


def pseudo_items(context: Context, generator: FittedGenerator, rng: RNG) -> torch.Tensor:
    """The states that a stage rehearses, or learns from, instead of real ones. On a CPU they may take minutes."""
    count, observation = context.settings.generator.pseudo_items, context.observation
    states = empty_states(count, observation.shape, context.device, observation.torch_dtype)
    context.progress.begin("generate pseudo-items", count, "states")
    for part in states.split(PART):
        part.copy_(generator.sample(len(part), rng))
        context.progress.advance(len(part))
        context.checkpointer.stop_if_requested()
    return states


class Generator(ABC):
    """A kind of generator and its hyper-parameters."""

    steps: int  # training steps per fit
    warm_start: bool = False  # whether training starts from the weights of the previous generator

    def suits(self, observation: ObservationSpec) -> bool:
        """Whether it can generate such states."""
        return True

    @abstractmethod
    def training(
        self, context: Context, new_states: StateSource, pseudo_items: Items | None, num_tasks: int
    ) -> GeneratorTraining:
        """Training of a fresh generator on states of the new task and, from the second task on, on pseudo-items of the
        earlier ones; `num_tasks` counts them all."""

    @abstractmethod
    def untrained(self, context: Context) -> FittedGenerator:
        """A freshly initialised generator, as `training` starts from."""

    @abstractmethod
    def load(self, context: Context, tensors: Tensors) -> FittedGenerator:
        """A generator from its state; tensors that do not fit raise a `UserError`."""

    @abstractmethod
    def num_bytes(self, observation: ObservationSpec) -> int:
        """The size of a fitted generator's state."""


class GeneratorTraining(ABC):
    """A training loop with progress, a curve of losses and checkpoints; subclasses provide the step."""

    steps_per_call = 1  # how many of `Generator.steps` one call of `step` makes

    def __init__(self, context: Context, steps: int) -> None:
        self.context = context
        self.calls, self.calls_done = steps // self.steps_per_call, 0
        self.curve = Rows()  # the losses at about 100 points
        self.parts = Parts(curve=self.curve)  # what a checkpoint contains; subclasses add to it

    @abstractmethod
    def begin(self) -> None:
        """Prepares for the first step; afterwards `step` may be called."""

    def start_from(self, previous: Tensors) -> None:
        """Starts from the state of the previous generator instead of a fresh one, if `Generator.warm_start`."""
        raise UserError("this generator has no warm start")

    @abstractmethod
    def step(self) -> None:
        """Makes `steps_per_call` training steps."""

    @abstractmethod
    def losses(self) -> dict[str, float]:
        """The losses of the last step, by name."""

    @abstractmethod
    def fitted(self) -> FittedGenerator:
        """The generator as it is now."""

    def run(self) -> FittedGenerator:
        """Trains to the end, from the newest checkpoint if there is one."""
        context, per_call = self.context, self.steps_per_call
        context.checkpointer.register("generator", self)
        done = per_call * self.calls_done
        context.progress.begin("train generator", per_call * self.calls, "steps", done, curves=("generator",))
        if self.calls_done < self.calls:
            self.begin()
        while self.calls_done < self.calls:
            self.step()
            if self.calls_done % max(1, self.calls // 100) == 0:
                self._record()
            self.calls_done += 1
            context.progress.advance(per_call)
            context.checkpointer.maybe_save(per_call)
        return self.fitted()

    def _record(self) -> None:
        step, losses, progress = self.steps_per_call * self.calls_done, self.losses(), self.context.progress
        check_finite(sum(losses.values()), "the generator", f"step {step:,}")
        self.curve.append({"step": step, **losses})
        measured = {f"{name}_loss": loss for name, loss in losses.items()}
        progress.log_curves("generator", step, {**measured, "steps_per_second": progress.per_second(step) or None})

    def state(self) -> State:
        return {"calls_done": self.calls_done, **self.parts.state()}

    def restore(self, state: State) -> None:
        self.calls_done = state["calls_done"]
        self.parts.restore(state)

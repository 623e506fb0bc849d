"""What every stage of learning is given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypedDict

import torch

from reaper.compute.compilation import MIN_UPDATES, Function, can_compile, compiled, compute_dtype_for
from reaper.compute.layouts import is_small
from reaper.config.settings import Settings
from reaper.networks.families import build_q_network
from reaper.networks.q_network import QNetwork
from reaper.networks.residual import is_residual
from reaper.networks.weights import with_weights
from reaper.progress import Progress
from reaper.randomness import RNG, derive_seed, new_rng
from reaper.storage.checkpoints import Checkpointer
from reaper.tasks.identity import place_of
from reaper.tasks.observation import ObservationSpec, state_spec
from reaper.tasks.sequence import open_task
from reaper.tasks.task import EnvOptions, Task, VectorTask


@dataclass(frozen=True)
class Context:
    """Settings, device and randomness of one stage of one run."""

    settings: Settings
    num_actions: int  # outputs of the network: the largest action set of the sequence
    seed: int  # of the run; conditions with one seed share their random streams, so that they differ in nothing else
    names: tuple[str, ...]  # identify the stage: its random streams are derived from them
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    progress: Progress = field(default_factory=Progress)
    checkpointer: Checkpointer = field(default_factory=Checkpointer)
    compiles: bool = False  # whether updates and forward passes are compiled
    compute_dtype: torch.dtype | None = None  # of activations and kernels in compiled updates; None means float32
    cuda_graphs: bool = True  # whether work on a GPU is captured; False launches it kernel by kernel
    concurrent_eval: bool = False  # whether evaluations run in a process of their own, alongside training
    emulator_threads: int | None = None  # None: chosen from the cores
    env_workers: int | None = None  # None: measured

    @cached_property
    def observation(self) -> ObservationSpec:
        """What the agent sees: a state of stacked observations."""
        return state_spec(self.settings.observation)

    def rng(self, *purpose: str | int) -> RNG:
        """A random number generator on the stage's device. `purpose` is the key of its random stream."""
        return new_rng(self.device, self.seed, *self.names, *purpose)

    def cpu_rng(self, *purpose: str | int) -> RNG:
        """A generator on the CPU, so that its numbers are the same on every device: for actions."""
        return new_rng("cpu", self.seed, *self.names, *purpose)

    def derive_seed(self, *purpose: str | int) -> int:
        """A seed for environments."""
        return derive_seed(self.seed, *self.names, *purpose)

    def compile(self, function: Function) -> Function:
        """The function, compiled if this stage compiles."""
        return compiled(function, self.device) if self.compiles else function

    def q_network(
        self, weights: dict[str, torch.Tensor] | None = None, *, quantiles: int = 1, residual: bool = False
    ) -> QNetwork:
        """A Q-network with the given weights, whose names tell whether it is residual, or freshly initialised."""
        residual = residual if weights is None else is_residual(weights)

        def build() -> QNetwork:
            size = self.settings.network
            return build_q_network(self.observation, self.num_actions, size, quantiles=quantiles, residual=residual)

        if weights is None:
            network = build()
            network.initialise(self.settings.network.initialisation, self.cpu_rng("weights"))
        else:
            network = with_weights(build, weights, "agent")
        return network.to(self.device)

    def copy_of(self, network: QNetwork) -> QNetwork:
        """A network of the same kind with the same weights."""
        return self.q_network(network.state_dict(), quantiles=network.quantiles)

    def open(self, task: Task, num_envs: int, vector_env: bool = False) -> VectorTask:
        """Opens a task's environments, with the observation of the sequence and the task's own actions."""
        return open_task(task, replace(self.env_options(task, num_envs), vector_env=vector_env))

    def env_options(self, task: Task, num_envs: int) -> EnvOptions:
        return EnvOptions(
            num_envs,
            self.observation.frame,
            self.emulator_threads,
            scale=self.settings.scales.get(task.name),
            place=place_of(task.name, self.settings.observation),
            env_workers=self.env_workers,
        )


class CompileOptions(TypedDict):
    compiles: bool
    compute_dtype: torch.dtype | None


def compile_options(settings: Settings, device: torch.device) -> CompileOptions:
    """The fields of a context that decide how updates are run. Small networks spend their time elsewhere, and a short
    run ends before compilation has paid off."""
    agent_steps = max(settings.short_term.agent_steps, settings.long_term.agent_steps)
    updates = agent_steps // settings.training.steps_per_update
    worthwhile = not is_small(state_spec(settings.observation)) and updates >= MIN_UPDATES
    compiles = worthwhile and can_compile(device.type)
    return {"compiles": compiles, "compute_dtype": compute_dtype_for(device) if compiles else None}


def state_tensors(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A network's weights as they are stored: contiguous, on the CPU, without counters and without quantiles."""
    weights = network.averaged() if isinstance(network, QNetwork) else network.state_dict()
    return {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in weights.items()
        if not name.endswith("num_batches_tracked")
    }

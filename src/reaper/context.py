"""What every stage of learning is given."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from reaper.compute.compilation import Function, compiled
from reaper.config.settings import Settings
from reaper.generators.gan.discriminator import Discriminator
from reaper.generators.gan.generator import Generator, initialise_adversarial
from reaper.networks.q_network import QNetwork
from reaper.networks.weights import with_weights
from reaper.progress import Progress
from reaper.randomness import Stream, derive_seed, stream
from reaper.storage.checkpoints import Keeper
from reaper.tasks.sequence import open_task
from reaper.tasks.task import Task, VectorTask


@dataclass(frozen=True)
class Context:
    """Settings, device and randomness of one stage of one run."""

    settings: Settings
    actions: int  # the action set of the whole sequence
    seed: int  # the run's; conditions of one seed share their random streams, so that they differ in nothing else
    names: tuple[str, ...]  # which stage this is: sets its random streams apart
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    progress: Progress = field(default_factory=Progress)
    keeper: Keeper = field(default_factory=Keeper)  # saves what the stage would lose if it were killed
    compiles: bool = False  # whether what is done over and over becomes machine code first
    tests_beside: bool = False  # whether tests are played beside training, in a process of their own

    def stream(self, *purpose: str | int) -> Stream:
        return stream(self.device, self.seed, *self.names, *purpose)

    def dice(self, *purpose: str | int) -> Stream:
        """A stream for actions: always of the CPU, where the games are, so the same on every device."""
        return stream("cpu", self.seed, *self.names, *purpose)

    def derive_seed(self, *purpose: str | int) -> int:
        return derive_seed(self.seed, *self.names, *purpose)

    def faster(self, function: Function) -> Function:
        """The same function, compiled where that pays."""
        return compiled(function, self.device) if self.compiles else function

    def q_network(self, weights: dict[str, torch.Tensor] | None = None) -> QNetwork:
        """A DQN with the given weights, or freshly drawn ones."""
        frames = self.settings.frames

        def build() -> QNetwork:
            return QNetwork(frames.size, frames.history, self.actions, self.settings.network.width)

        if weights is None:
            network = build()
            how, randomness = self.settings.network.initialisation, stream("cpu", self.seed, *self.names, "weights")
            network.initialise(how, randomness)
        else:
            network = with_weights(build, weights, "agent")
        return network.to(self.device)

    def generator(self, weights: dict[str, torch.Tensor] | None = None) -> Generator:
        """A generator with the given weights, or an untouched one to be initialised."""
        frames, settings = self.settings.frames, self.settings.generator

        def build() -> Generator:
            return Generator(frames.size, frames.history, settings.latents, settings.width)

        generator = build() if weights is None else with_weights(build, weights, "generator")
        return generator.to(self.device)

    def adversaries(self) -> tuple[Generator, Discriminator]:
        """A freshly drawn GAN; its weights are drawn on the CPU, so that they are the same on every device."""
        generator = self.generator().cpu()
        discriminator = Discriminator(self.settings.frames.size, self.settings.frames.history)
        randomness = stream("cpu", self.seed, *self.names, "adversarial weights")
        initialise_adversarial(generator, randomness)
        initialise_adversarial(discriminator, randomness)
        return generator.to(self.device), discriminator.to(self.device)

    def open(self, task: Task, games: int) -> VectorTask:
        return open_task(task, games, self.settings.frames.size, self.actions)


def kept_weights(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A network's weights as they go to disk: contiguous, on the CPU, without counters."""
    return {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }

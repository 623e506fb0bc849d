"""The GAN as a generator: its hyper-parameters, and how it is trained, stored and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from reaper.config.fields import duration, positive, probability, setting
from reaper.context import Context, state_tensors
from reaper.errors import UserError
from reaper.generators.base import Generator, Tensors
from reaper.generators.gan.discriminator import Discriminator
from reaper.generators.gan.generator import FittedGAN, GeneratorNetwork
from reaper.generators.gan.mlp import VectorDiscriminator, VectorGenerator
from reaper.generators.gan.state_generator import StateGenerator
from reaper.generators.gan.training import AdversarialTraining, TrainingStates
from reaper.memory.items import Items, StateSource
from reaper.memory.long_term import tensor_bytes
from reaper.networks.weights import with_weights
from reaper.randomness import new_rng
from reaper.tasks.observation import VECTOR, ObservationSpec


def _image(observation: ObservationSpec) -> tuple[int, int]:
    """Side and channels of the square images that these networks are made for."""
    channels, side, width = observation.shape
    if side != width:
        raise UserError(
            f"the GAN generates vectors and square images, not {observation}; choose another --generator.name"
        )
    return side, channels


@dataclass(frozen=True)
class GAN(Generator):
    """Algorithm 3: WGAN-GP with a drift term (Table gan-arch and its text)."""

    latent_size: int = positive(100, "latent variables per state")
    width: int = positive(1, "multiplies the filters of the generator network", extended=2)
    narrow: int = positive(1, "divides the filters of the generator network")
    warm_start: bool = setting(False, "from the second task on, training starts from the previous generator's weights")
    # Discriminator and generator alternate: half of the steps each.
    steps: int = duration(200_000, "training steps per task", exclusive=False, extended=2)
    batch_size: int = positive(100, "states per step")
    learning_rate: float = positive(1e-3, "learning rate of Adam, for both networks")
    beta1: float = probability(0.0, "decay of Adam's mean")
    beta2: float = probability(0.99, "decay of Adam's mean square")
    epsilon: float = positive(1e-8, "added to the denominator of a step of Adam")
    gradient_penalty: float = setting(10.0, "weight of the gradient penalty", minimum=0)
    drift: float = setting(1e-6, "weight of the drift term", minimum=0)
    noise: float = setting(10.0, "noise on what the discriminator sees, on the scale of raw pixels", minimum=0)

    average: float = probability(
        0.0,
        "decay, per step of both networks, of a running average of the generator's weights; that is then kept; 0: none",
    )

    def training(
        self, context: Context, new_states: StateSource, pseudo_items: Items | None, num_tasks: int
    ) -> AdversarialTraining:
        states = TrainingStates(new_states, pseudo_items, num_tasks)
        return AdversarialTraining(context, self, states)

    def untrained(self, context: Context) -> FittedGAN:
        return FittedGAN.of(self.networks(context)[0], context)

    def load(self, context: Context, tensors: Tensors) -> FittedGAN:
        network = with_weights(lambda: self.network(context.observation), tensors, "generator")
        return FittedGAN.of(network.to(context.device), context)

    def num_bytes(self, observation: ObservationSpec) -> int:
        return sum(tensor_bytes(tensor) for tensor in state_tensors(self.network(observation)).values())

    def network(self, observation: ObservationSpec) -> StateGenerator:
        """A generator network for these states: an MLP for vectors, else convolutions. It has not been initialised."""
        if observation.kind == VECTOR:
            return VectorGenerator(observation, self.latent_size, Fraction(self.width, self.narrow))
        return GeneratorNetwork(*_image(observation), self.latent_size, Fraction(self.width, self.narrow))

    def networks(self, context: Context) -> tuple[StateGenerator, Discriminator | VectorDiscriminator]:
        """A fresh pair. Its weights are drawn on the CPU, so that they are the same on every device."""
        observation = context.observation
        generator = self.network(observation)
        vectors = observation.kind == VECTOR
        discriminator = VectorDiscriminator(observation) if vectors else Discriminator(*_image(observation))
        rng = new_rng("cpu", context.seed, *context.names, "adversarial weights")
        generator.initialise(rng)
        discriminator.initialise(rng)
        return generator.to(context.device), discriminator.to(context.device)

"""Algorithm 3: a fresh GAN learns the states of the new task and those that the previous generator generates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from reaper.compute.compilation import MIN_UPDATES
from reaper.compute.cuda_graph import capture_graph
from reaper.compute.optimiser import Adam, FlatWeights
from reaper.compute.update import Batch, Forward, Update
from reaper.context import Context
from reaper.equations import disc_loss, gan_data, gen_loss, gradient_norms, interpolate
from reaper.generators.base import GeneratorTraining, Tensors
from reaper.generators.gan.generator import FittedGAN
from reaper.memory.items import Items, StateSource
from reaper.randomness import RNG
from reaper.state import State

if TYPE_CHECKING:
    from reaper.generators.gan.gan import GAN


@dataclass(frozen=True)
class TrainingStates:
    """The states a GAN is trained on."""

    new_states: StateSource
    pseudo_items: Items | None  # of the earlier tasks; None for the first task
    num_tasks: int

    def sample(self, count: int, rng: RNG) -> torch.Tensor:
        """States of the new task with probability 1/T, else of a pseudo-item."""
        new = self.new_states.sample_states(count, rng)
        if self.pseudo_items is None:
            return new.float()
        generated = self.pseudo_items.sample_states(count, rng)
        uniform = torch.rand(count, generator=rng, device=new.device)
        return gan_data(new, generated, uniform, self.num_tasks).float()


class Adversaries:
    """Generator and discriminator: the batches each is shown, and its loss on them."""

    def __init__(self, context: Context, gan: GAN, states: TrainingStates, compute_dtype: torch.dtype | None) -> None:
        self.gan, self.states = gan, states
        self.rng = context.rng("adversarial batches")  # the key of a random stream: renaming it would change results
        self.generator, self.discriminator = gan.networks(context)
        self.compute_dtype: dict[str, Any] = {"compute_dtype": compute_dtype}

    def latents(self) -> torch.Tensor:
        return self.generator.sample_latents(self.gan.batch_size, self.rng)

    def noise(self) -> torch.Tensor:
        """U(-1, 1) for a batch of states."""
        shape = (self.gan.batch_size, *self.generator.state_shape)
        return torch.rand(shape, generator=self.rng, device=self.rng.device) * 2 - 1

    def seen(self, states: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """What the discriminator sees of states: with noise, then rescaled (pixels to [-1, 1])."""
        return self.generator.to_inputs(states, noise, self.gan.noise)

    @torch.no_grad()
    def discriminator_batch(self) -> Batch:
        latents, noise = self.latents(), self.noise()
        real, real_noise = self.states.sample(self.gan.batch_size, self.rng), self.noise()
        epsilon = torch.rand(len(real), generator=self.rng, device=real.device)
        return latents, noise, real, real_noise, epsilon

    def generator_batch(self) -> Batch:
        return self.latents(), self.noise()

    def discriminator_loss(
        self,
        forward: Forward,
        weights: list[torch.Tensor],
        latents: torch.Tensor,
        noise: torch.Tensor,
        real_states: torch.Tensor,
        real_noise: torch.Tensor,
        epsilon: torch.Tensor,
    ) -> torch.Tensor:
        with torch.no_grad():
            fake = self.seen(self.generator.to_states(self.generator(latents, **self.compute_dtype)), noise)
        real = self.seen(real_states, real_noise)
        norms = gradient_norms(forward(interpolate(real, fake, epsilon), input_gradients=True))
        real_scores, fake_scores = forward(torch.cat([real, fake])).split(len(real))
        penalty, drift = self.gan.gradient_penalty, self.gan.drift
        return disc_loss(real_scores, fake_scores, norms, penalty=penalty, drift=drift)

    def generator_loss(
        self, forward: Forward, weights: list[torch.Tensor], latents: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        fake = self.seen(self.generator.to_states(forward(latents)), noise)
        return gen_loss(self.discriminator(fake, **self.compute_dtype))


class AdversarialTraining(GeneratorTraining):
    """A fresh GAN on alternating steps; the discriminator is discarded at the end."""

    steps_per_call = 2  # one of the discriminator, one of the generator

    def __init__(self, context: Context, gan: GAN, states: TrainingStates) -> None:
        super().__init__(context, gan.steps)
        # On a CPU the arithmetic of the convolutions is all there is: compilation does not reduce it, bf16 does.
        on_cpu = context.device.type == "cpu"
        compiles = context.compiles and not on_cpu and gan.steps >= MIN_UPDATES
        compute_dtype = context.compute_dtype if compiles or on_cpu else None
        self.gan = gan
        self.pair = pair = Adversaries(context, gan, states, compute_dtype)
        d_weights, g_weights = FlatWeights(pair.discriminator), FlatWeights(pair.generator)
        d_optimiser, g_optimiser = (
            Adam(weights, gan.learning_rate, beta1=gan.beta1, beta2=gan.beta2, epsilon=gan.epsilon)
            for weights in (d_weights, g_weights)
        )
        options: dict[str, Any] = {"compiles": compiles, "compute_dtype": compute_dtype, "concurrent_gradients": False}
        self.update_d = Update(d_weights, d_optimiser, pair.discriminator_loss, **options)
        self.update_g = Update(g_weights, g_optimiser, pair.generator_loss, **options)
        # Generator and discriminator of a small GAN circle around where they would meet; the average is closer to it.
        self.weights, self.average = g_weights, g_weights.values.clone() if gan.average else None
        self.last_losses = torch.zeros(2, device=context.device)  # of discriminator and generator
        self._step = self.both
        self.parts |= {"d_weights": d_weights, "g_weights": g_weights}
        self.parts |= {"d_optimiser": d_optimiser, "g_optimiser": g_optimiser, "batches": pair.rng}

    def both(self) -> None:
        """One step of each network."""
        self.last_losses[0] = self.update_d(*self.pair.discriminator_batch())
        self.last_losses[1] = self.update_g(*self.pair.generator_batch())
        if self.average is not None:
            self.average.lerp_(self.weights.values, 1 - self.gan.average)

    def begin(self) -> None:
        self.pair.generator.train()
        if self.context.device.type == "cuda":
            self._step = capture_graph(self.both, self.parts)

    def start_from(self, previous: Tensors) -> None:
        """The discriminator is fresh all the same: it was not kept."""
        self.pair.generator.load_state_dict(dict(previous), strict=False)  # without counters of batches

    def step(self) -> None:
        self._step()

    def losses(self) -> dict[str, float]:
        discriminator, generator = self.last_losses.tolist()
        return {"discriminator": discriminator, "generator": generator}

    def state(self) -> State:
        return {**super().state(), **({} if self.average is None else {"average": self.average})}

    def restore(self, state: State) -> None:
        super().restore(state)
        if self.average is not None:
            self.average.copy_(state["average"])

    def fitted(self) -> FittedGAN:
        if self.average is not None:
            self.weights.values.copy_(self.average)
        return FittedGAN.of(self.pair.generator, self.context)

"""Algorithm 3: a fresh GAN learns to dream of the new task and of everything the previous generator dreamt of."""

from __future__ import annotations

import torch

from reaper.checkpoints import Parts, Rows, State, check_finite
from reaper.equations import disc_loss, gan_data, gen_loss, gradient_norms, interpolate, noisy, rescale, unscale
from reaper.learning.context import Context
from reaper.learning.optimiser import FlatWeights, adversarial_optimiser
from reaper.learning.update import Update
from reaper.memory.items import Items, StateSource
from reaper.networks.discriminator import Discriminator
from reaper.networks.generator import Generator


class AdversarialLosses:
    """The two losses of the GAN, each drawing its own batch."""

    def __init__(
        self,
        context: Context,
        generator: Generator,
        discriminator: Discriminator,
        new_states: StateSource,
        pseudo_items: Items | None,
        tasks: int,
    ) -> None:
        self.settings, self.randomness = context.settings.generator, context.stream("adversarial batches")
        self.generator, self.discriminator = generator, discriminator
        self.new_states, self.pseudo_items, self.tasks = new_states, pseudo_items, tasks

    def real(self) -> torch.Tensor:
        """Raw pixels of the new task with probability 1/T, else of the previous generator's dreams."""
        count = self.settings.batch_size
        new = self.new_states.sample_states(count, self.randomness)
        if self.pseudo_items is None:
            return new.float()
        dreamt = self.pseudo_items.sample_states(count, self.randomness)
        uniform = torch.rand(count, generator=self.randomness, device=new.device)
        return gan_data(new, dreamt, uniform, self.tasks).float()

    def fake(self) -> torch.Tensor:
        """Raw pixels of the generator in training."""
        return unscale(self.generator(self.generator.draw_latents(self.settings.batch_size, self.randomness)))

    def seen(self, pixels: torch.Tensor) -> torch.Tensor:
        """What the discriminator gets to see: noisy, then rescaled."""
        noise = torch.rand(pixels.shape, generator=self.randomness, device=pixels.device) * 2 - 1
        return rescale(noisy(pixels, noise, self.settings.noise))

    def discriminator_loss(self) -> torch.Tensor:
        with torch.no_grad():
            fake = self.seen(self.fake())
        real = self.seen(self.real())
        epsilon = torch.rand(len(real), generator=self.randomness, device=real.device)
        norms = gradient_norms(self.discriminator, interpolate(real, fake, epsilon))
        scores = self.discriminator(torch.cat([real, fake]))
        real_scores, fake_scores = scores.split(len(real))
        return disc_loss(real_scores, fake_scores, norms, self.settings.penalty, self.settings.drift)

    def generator_loss(self) -> torch.Tensor:
        return gen_loss(self.discriminator(self.seen(self.fake())))


class AdversarialTraining:
    """A fresh GAN on alternating steps; the discriminator is thrown away in the end."""

    def __init__(self, context: Context, new_states: StateSource, pseudo_items: Items | None, tasks: int) -> None:
        self.context, settings = context, context.settings.generator
        self.generator, discriminator = context.adversaries()
        self.losses = AdversarialLosses(context, self.generator, discriminator, new_states, pseudo_items, tasks)
        d_weights, g_weights = FlatWeights(discriminator), FlatWeights(self.generator)
        d_optimiser, g_optimiser = (adversarial_optimiser(settings, weights) for weights in (d_weights, g_weights))
        self.update_d = Update(d_weights, d_optimiser, lambda answer, weights: self.losses.discriminator_loss())
        self.update_g = Update(g_weights, g_optimiser, lambda answer, weights: self.losses.generator_loss())
        self.pairs_done = 0
        self.curve = Rows()  # the losses at some 100 points
        self.parts = Parts(d_weights=d_weights, g_weights=g_weights, d_optimiser=d_optimiser, g_optimiser=g_optimiser)
        self.parts |= {"batches": self.losses.randomness, "curve": self.curve}

    def run(self) -> Generator:
        context, pairs = self.context, self.context.settings.generator.steps // 2
        context.keeper.keep("adversarial", self)
        done = 2 * self.pairs_done
        context.progress.begin("dream practice", 2 * pairs, "steps", done, curves=("generator",))
        self.generator.train()
        while self.pairs_done < pairs:
            d_loss, g_loss = self.update_d(), self.update_g()
            if self.pairs_done % max(1, pairs // 100) == 0:
                self.note(float(d_loss), float(g_loss))
            self.pairs_done += 1
            context.progress.advance(2)
            context.keeper.reached(2)
        return self.generator.eval()

    def note(self, d_loss: float, g_loss: float) -> None:
        check_finite(d_loss + g_loss, "the generator", f"step {2 * self.pairs_done:,}")
        step, progress = 2 * self.pairs_done, self.context.progress
        self.curve.append({"step": step, "discriminator": d_loss, "generator": g_loss})
        losses = {"discriminator_loss": d_loss, "generator_loss": g_loss}
        progress.measure("generator", step, {**losses, "steps_per_second": progress.per_second(step) or None})

    def state(self) -> State:
        return {"pairs_done": self.pairs_done, **self.parts.state()}

    def restore(self, state: State) -> None:
        self.pairs_done = state["pairs_done"]
        self.parts.restore(state)


def train_generator(
    context: Context, new_states: StateSource, pseudo_items: Items | None, tasks: int
) -> tuple[Generator, list[dict[str, float]]]:
    """The generator and the losses of its training."""
    training = AdversarialTraining(context, new_states, pseudo_items, tasks)
    return training.run(), training.curve

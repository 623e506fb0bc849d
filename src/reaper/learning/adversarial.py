"""Algorithm 3: a fresh GAN learns to dream of the new task and of everything the previous generator dreamt of."""

from __future__ import annotations

import torch

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


def train_generator(
    context: Context, new_states: StateSource, pseudo_items: Items | None, tasks: int
) -> tuple[Generator, list[dict[str, float]]]:
    """Trains a fresh GAN on alternating steps; the discriminator is thrown away. Returns the generator and its losses
    at some 100 points."""
    settings = context.settings.generator
    generator, discriminator = context.adversaries()
    losses = AdversarialLosses(context, generator, discriminator, new_states, pseudo_items, tasks)
    d_weights, g_weights = FlatWeights(discriminator), FlatWeights(generator)
    update_d = Update(d_weights, adversarial_optimiser(settings, d_weights), losses.discriminator_loss)
    update_g = Update(g_weights, adversarial_optimiser(settings, g_weights), losses.generator_loss)

    pairs, curve = settings.steps // 2, []
    context.progress.begin("dream practice", 2 * pairs, "steps")
    generator.train()
    for pair in range(pairs):
        d_loss, g_loss = update_d(), update_g()
        if pair % max(1, pairs // 100) == 0:
            curve.append({"step": 2 * pair, "discriminator": float(d_loss), "generator": float(g_loss)})
        context.progress.advance(2)
    generator.eval()
    return generator, curve

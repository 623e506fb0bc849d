"""Algorithm 3: a fresh GAN learns to dream of the new task and of everything the previous generator dreamt of."""

from __future__ import annotations

import torch

from reaper.compute.compilation import WORTH_IT, compute_dtype_for
from reaper.compute.cuda_graph import capture_graph
from reaper.compute.optimiser import FlatWeights, adversarial_optimiser
from reaper.compute.update import Answer, Batch, Update
from reaper.context import Context
from reaper.equations import disc_loss, gan_data, gen_loss, gradient_norms, interpolate, noisy, rescale, unscale
from reaper.generators.gan.generator import Generator
from reaper.memory.items import Items, StateSource
from reaper.state import Parts, Rows, State
from reaper.storage.checkpoints import check_finite


class Adversaries:
    """Generator and discriminator: the batch each is shown, and what it loses on it."""

    def __init__(
        self,
        context: Context,
        new_states: StateSource,
        pseudo_items: Items | None,
        tasks: int,
        rounding: torch.dtype | None,
    ) -> None:
        self.settings, self.rng = context.settings.generator, context.rng("adversarial batches")
        self.generator, self.discriminator = context.adversaries()
        self.new_states, self.pseudo_items, self.tasks = new_states, pseudo_items, tasks
        self.rounding = {"compute_dtype": rounding}

    def real(self) -> torch.Tensor:
        """Raw pixels of the new task with probability 1/T, else of the previous generator's dreams."""
        count = self.settings.batch_size
        new = self.new_states.sample_states(count, self.rng)
        if self.pseudo_items is None:
            return new.float()
        dreamt = self.pseudo_items.sample_states(count, self.rng)
        uniform = torch.rand(count, generator=self.rng, device=new.device)
        return gan_data(new, dreamt, uniform, self.tasks).float()

    def latents(self) -> torch.Tensor:
        return self.generator.draw_latents(self.settings.batch_size, self.rng)

    def noise(self) -> torch.Tensor:
        """For a batch of states: U(-1, 1)."""
        size, history = self.generator.frame_size, self.generator.history
        shape = (self.settings.batch_size, history, size, size)
        return torch.rand(shape, generator=self.rng, device=self.rng.device) * 2 - 1

    def seen(self, pixels: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """What the discriminator gets to see of raw pixels: noisy, then rescaled."""
        return rescale(noisy(pixels, noise, self.settings.noise))

    @torch.no_grad()
    def discriminator_batch(self) -> Batch:
        latents, noise = self.latents(), self.noise()
        real, more_noise = self.real(), self.noise()
        epsilon = torch.rand(len(real), generator=self.rng, device=real.device)
        return latents, noise, real, more_noise, epsilon

    def generator_batch(self) -> Batch:
        return self.latents(), self.noise()

    def discriminator_loss(
        self,
        answer: Answer,
        weights: list[torch.Tensor],
        latents: torch.Tensor,
        noise: torch.Tensor,
        real_pixels: torch.Tensor,
        more_noise: torch.Tensor,
        epsilon: torch.Tensor,
    ) -> torch.Tensor:
        with torch.no_grad():
            fake = self.seen(unscale(self.generator(latents, **self.rounding)), noise)
        real = self.seen(real_pixels, more_noise)
        norms = gradient_norms(answer(interpolate(real, fake, epsilon), slopes=True))
        real_scores, fake_scores = answer(torch.cat([real, fake])).split(len(real))
        return disc_loss(real_scores, fake_scores, norms, self.settings.gradient_penalty, self.settings.drift)

    def generator_loss(
        self, answer: Answer, weights: list[torch.Tensor], latents: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        return gen_loss(self.discriminator(self.seen(unscale(answer(latents)), noise), **self.rounding))


class AdversarialTraining:
    """A fresh GAN on alternating steps; the discriminator is thrown away in the end."""

    def __init__(self, context: Context, new_states: StateSource, pseudo_items: Items | None, tasks: int) -> None:
        self.context, settings = context, context.settings.generator
        # On a CPU the arithmetic of convolutions is all there is to it: no compiler makes that less, but rounding does.
        on_cpu = context.device.type == "cpu"
        compiles = context.compiles and not on_cpu and settings.steps >= WORTH_IT
        rounds = compiles or (context.compiles and on_cpu)
        rounding = compute_dtype_for(context.device) if rounds else None
        self.pair = pair = Adversaries(context, new_states, pseudo_items, tasks, rounding)
        d_weights, g_weights = FlatWeights(pair.discriminator), FlatWeights(pair.generator)
        d_optimiser, g_optimiser = (adversarial_optimiser(settings, weights) for weights in (d_weights, g_weights))
        how = {"compiles": compiles, "small": False, "rounds": rounds}
        self.update_d = Update(d_weights, d_optimiser, pair.discriminator_loss, **how)
        self.update_g = Update(g_weights, g_optimiser, pair.generator_loss, **how)
        self.losses = torch.zeros(2, device=context.device)  # the last ones
        self.step = self.both
        self.pairs_done = 0
        self.curve = Rows()  # the losses at some 100 points
        self.parts = Parts(d_weights=d_weights, g_weights=g_weights, d_optimiser=d_optimiser, g_optimiser=g_optimiser)
        self.parts |= {"batches": pair.rng, "curve": self.curve}

    def both(self) -> None:
        """One step of each."""
        self.losses[0] = self.update_d(*self.pair.discriminator_batch())
        self.losses[1] = self.update_g(*self.pair.generator_batch())

    def begin(self) -> None:
        """Gets ready for the first step."""
        self.pair.generator.train()
        if self.context.device.type == "cuda":
            self.step = capture_graph(self.both, self.parts)

    def run(self) -> Generator:
        context, pairs = self.context, self.context.settings.generator.steps // 2
        context.checkpointer.register("adversarial", self)
        done = 2 * self.pairs_done
        context.progress.begin("dream practice", 2 * pairs, "steps", done, curves=("generator",))
        if self.pairs_done < pairs:
            self.begin()
        while self.pairs_done < pairs:
            self.step()
            if self.pairs_done % max(1, pairs // 100) == 0:
                self.note(*self.losses.tolist())
            self.pairs_done += 1
            context.progress.advance(2)
            context.checkpointer.maybe_save(2)
        return self.pair.generator.eval()

    def note(self, d_loss: float, g_loss: float) -> None:
        check_finite(d_loss + g_loss, "the generator", f"step {2 * self.pairs_done:,}")
        step, progress = 2 * self.pairs_done, self.context.progress
        self.curve.append({"step": step, "discriminator": d_loss, "generator": g_loss})
        losses = {"discriminator_loss": d_loss, "generator_loss": g_loss}
        progress.log_curves("generator", step, {**losses, "steps_per_second": progress.per_second(step) or None})

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

"""The paper's generator: a WGAN-GP with a drift term (Algorithm 3, Table gan-arch)."""

from reaper.generators.gan.gan import GAN

__all__ = ["GAN"]

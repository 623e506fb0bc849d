"""Generators by name; `register_generator` adds one from any package."""

from __future__ import annotations

from reaper.config.methods import MethodRegistry
from reaper.config.settings import Settings
from reaper.generators.base import FittedGenerator, Generator, GeneratorTraining, pseudo_items
from reaper.generators.gan import GAN
from reaper.generators.tokens import Tokens

GENERATORS: MethodRegistry[Generator] = MethodRegistry("generator", "reaper.generators")
GENERATORS["gan"] = GAN
GENERATORS["tokens"] = Tokens


def register_generator(name: str, generator: type[Generator]) -> None:
    """Makes a generator known by name; select it with `--generator.name`."""
    GENERATORS[name] = generator


def generator_for(settings: Settings) -> Generator:
    """The generator that the settings select, with its hyper-parameters."""
    return GENERATORS.configure(settings.generator.name, settings)


__all__ = [
    "GAN",
    "GENERATORS",
    "FittedGenerator",
    "Generator",
    "GeneratorTraining",
    "Tokens",
    "generator_for",
    "pseudo_items",
    "register_generator",
]

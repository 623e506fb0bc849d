"""How long a whole run would take, from what `reaper bench` has measured of its parts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reaper.config.settings import Settings
from reaper.generators import generator_for
from reaper.learning.evaluation.evaluator import MOST_HELD
from reaper.storage.checkpoints import Interval

GAME = 1_800  # agent steps of a whole game that is too long to be played here: two minutes of Atari
BESIDE = "training beside a test"
TEST_BESIDE = "test beside training"
GAN_BESIDE = "GAN beside a test"
TEST_BESIDE_GAN = "test beside the GAN"


@dataclass(frozen=True)
class Figure:
    """One measured rate, its repeats, and each as a share of something else in the same minute."""

    what: str
    task: str
    unit: str
    rates: tuple[float, ...]
    shares: tuple[float, ...] = ()
    of: str = "bare emulation"  # what they are shares of

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def share(self) -> float | None:
        return statistics.median(self.shares) if self.shares else None

    def describe(self) -> dict[str, Any]:
        return {**vars(self), "rate": self.rate, "share": self.share}


@dataclass(frozen=True)
class Predicting:
    """Adds up the parts of RePR on some tasks, at the full budget of a scale; in seconds."""

    settings: Settings
    figures: Sequence[Figure]
    set_up: dict[str, float]
    tasks: list[str]

    def rate(self, what: str, task: str = "") -> float:
        return next(f.rate for f in self.figures if f.what == what and f.task in ("", task))

    def training(self, what: str, agent_steps: int, tasks: list[str]) -> float:
        return sum(agent_steps / self.rate(what, task) for task in tasks)

    def evaluation(self) -> float:
        """What tests add to the time of training."""
        short, long = self.settings.short_term.agent_steps, self.settings.long_term.agent_steps
        total = sum(self.tests("short-term training", short, [task], task) for task in self.tasks)
        for number, task in enumerate(self.tasks[1:], start=2):
            total += self.tests("long-term training", long, self.tasks[:number], task)
        return total

    def tests(self, what: str, agent_steps: int, known: list[str], task: str) -> float:
        """What tests of the known tasks add to training on one."""
        seams = -(-agent_steps // self.settings.evaluation.interval)
        beside = next((figure for figure in self.figures if figure.what == BESIDE), None)
        if beside is None:
            return seams * sum(self.set_up[f"evaluation {name}"] for name in known)
        training = agent_steps / self.rate(what, task)
        test, share = self.set_up[TEST_BESIDE], min(beside.share or 1.0, 1.0)
        if what.startswith("short"):
            return seams * lost_beside(training / seams, len(known) * test, share)
        held, quiet = min(seams, MOST_HELD // len(known)), generator_for(self.settings).steps / self.rate("GAN")
        return lost_beside_and_after(
            training * (seams - held) / seams,
            (seams - held) * len(known) * test,
            share,
            self.set_up[TEST_BESIDE_GAN] / test,
            held * len(known) * self.set_up[TEST_BESIDE_GAN],
            quiet,
        )

    def seconds(self) -> dict[str, float]:
        settings, set_up, later = self.settings, self.set_up, self.tasks[1:]
        short, long = settings.short_term.agent_steps, settings.long_term.agent_steps
        seconds: dict[str, float] = {}
        seconds["short-term training"] = self.training("short-term training", short, self.tasks)
        seconds["long-term training"] = self.training("long-term training", long, later)
        gathered = min(settings.training.replay_capacity, short)
        seconds["gathering"] = gathered / self.rate("bare emulation", self.tasks[0])
        seconds["GAN"] = len(self.tasks) * generator_for(settings).steps / self.rate("GAN")
        seconds["generation"] = 2 * len(later) * settings.generator.pseudo_items / self.rate("generation")
        seconds["evaluation"] = self.evaluation()
        setting_up = len(self.tasks) * (set_up["short-term"] + set_up["generator"])
        seconds["setting up"] = setting_up + len(later) * set_up["long-term"]
        seconds["checkpoints"] = sum(seconds.values()) / (Interval().seconds or 600) * set_up["checkpoint"]
        seconds["all"] = sum(seconds.values())
        bare = self.training("bare emulation", short, self.tasks) + self.training("bare emulation", long, later)
        return {**seconds, "bare emulation of as many frames": bare}


def lost_beside(training: float, tests: float, share: float) -> float:
    """Seconds that a seam takes longer than its `training` alone, when its `tests`, which take that long beside
    training, leave training this share of its speed. Where training is through first, it waits for the rest."""
    if share * tests <= training:
        return (1 - share) * tests
    return tests - training  # the rest is played with all cores to itself: this is the most it can be


def lost_beside_and_after(
    training: float, tests: float, share: float, quicker: float, held: float, quiet: float
) -> float:
    """The same where a `quiet` time follows, in which whatever is left is played, at `quicker` times the seconds, and
    also the `held` seconds of tests that were put off until then. Training waits for none of them; the stage does."""
    beside = min(tests, training / share)
    left = (tests - beside) * quicker + held
    return (1 - share) * beside + max(0.0, left - quiet)


def predicted_hours(
    settings: Settings, figures: Sequence[Figure], set_up: dict[str, float], tasks: list[str]
) -> dict[str, float]:
    """Hours of RePR on these tasks, by kind of work, and of bare emulation alone."""
    return {what: value / 3600 for what, value in Predicting(settings, figures, set_up, tasks).seconds().items()}

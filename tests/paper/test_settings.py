"""The numbers of the paper's text and tables, written out: what a run with the preset `paper` uses."""

from dataclasses import asdict

import pytest

from reaper.config.presets import PAPER
from reaper.generators.gan.gan import GAN
from reaper.retention import EWC, CompressedRehearsal, LimitedRehearsal, OnlineEWC, Rehearsal


def test_the_gan_is_trained_as_in_the_appendix():
    assert asdict(GAN()) == {
        "latent_size": 100,
        "width": 1,
        "steps": 200_000,
        "batch_size": 100,
        "learning_rate": 0.001,
        "beta1": 0.0,
        "beta2": 0.99,
        "epsilon": 1e-8,
        "gradient_penalty": 10.0,
        "drift": 1e-6,
        "noise": 10.0,
        # Later improvements, which the paper does not have:
        "narrow": 1,
        "warm_start": False,
        "average": 0.0,
    }


def test_the_optimiser_and_the_schedule_are_those_of_the_table():
    training, optimiser = PAPER.training, PAPER.optimiser
    assert (optimiser.name, optimiser.learning_rate, optimiser.epsilon) == ("rmsprop", 0.00025, 1e-6)
    assert (training.batch_size, training.replay_capacity, training.learning_starts) == (32, 200_000, 50_000)
    assert (training.steps_per_update, training.exploration_steps) == (4, 1_000_000)
    assert (training.initial_epsilon, training.final_epsilon) == (1.0, 0.1)
    assert (PAPER.short_term.agent_steps, PAPER.short_term.discount) == (20_000_000, 0.99)
    assert (PAPER.short_term.target_update_interval, PAPER.short_term.best_window) == (5_000, 250_000)
    assert (PAPER.long_term.agent_steps, PAPER.long_term.alpha) == (20_000_000, 0.55)
    assert (PAPER.evaluation.episodes, PAPER.evaluation.epsilon) == (30, 0.05)


def test_retention_methods_have_the_best_values_of_the_grid_searches():
    assert EWC().ewc_lambda == 300.0
    assert (OnlineEWC().ewc_lambda, OnlineEWC().gamma) == (75.0, 0.99)
    assert PAPER.fisher.batches == 100


@pytest.mark.parametrize(
    ("method", "items"), [(Rehearsal(), 250_000), (LimitedRehearsal(), 600), (CompressedRehearsal(), 600)]
)
def test_stores_have_the_papers_sizes(method, items):
    assert method.capacity == items
    assert PAPER.generator.pseudo_items == CompressedRehearsal().max_items == 250_000

"""Presets: the tables of numbers a run starts from. Variants: what some experiments change in any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from reaper.config.fields import info_of
from reaper.config.methods import all_methods, method_value, with_method_values
from reaper.config.settings import (
    EvaluationSettings,
    GeneratorSettings,
    LongTermSettings,
    NetworkSettings,
    ObservationSettings,
    OptimiserSettings,
    Settings,
    ShortTermSettings,
    TrainingSettings,
)

PAPER = Settings()

# Small games of our own on a laptop's CPU: found by measuring (docs/deviations.md lists what was tried).
ARCADE = Settings(
    observation=ObservationSettings(frame_size=16, frame_stack=2),
    network=NetworkSettings(initialisation="he"),
    optimiser=OptimiserSettings(name="adam", learning_rate=5e-4, epsilon=1e-5),
    training=TrainingSettings(num_envs=32, replay_capacity=32_000, learning_starts=1_600, exploration_steps=12_000),
    short_term=ShortTermSettings(agent_steps=30_000, discount=0.97, target_update_interval=1_000, best_window=7_500),
    long_term=LongTermSettings(agent_steps=30_000, alpha=0.35, late_alpha=0.2, late_from=4, best_window=5_000),
    generator=GeneratorSettings(pseudo_items=20_000),
    evaluation=EvaluationSettings(interval=10_000, min_interval=1_000),
    methods={
        "gan": {"latent_size": 64, "steps": 6_000, "batch_size": 32},
        "rehearsal": {"capacity": 20_000},
        "limited-rehearsal": {"capacity": 1_175},
        "compressed-rehearsal": {"capacity": 1_175, "max_items": 20_000},
    },
)

# Teachers that learn in a tenth of the paper's agent steps: chosen by measuring (docs/lab/teachers.md).
MODERN = Settings(
    network=NetworkSettings(initialisation="he"),
    optimiser=OptimiserSettings(name="adam", learning_rate=2.5e-4, epsilon=1.5e-4),
    training=TrainingSettings(learning_starts=20_000, exploration_steps=250_000, final_epsilon=0.01),
    short_term=ShortTermSettings(
        agent_steps=2_000_000, n_step=2, target="munchausen", target_update_interval=8_000, best_window=100_000
    ),
    long_term=LongTermSettings(agent_steps=2_000_000, best_window=100_000),
    evaluation=EvaluationSettings(interval=500_000),
    methods={"gan": {"steps": 40_000}},
)

# Teachers with a residual network that learns quantiles: for a GPU, where they take longer than `modern`'s and reach
# more (docs/lab/teachers.md). The long-term agent has the network and the bytes of `modern`'s. It learns advantages,
# with a small weight and learning rate: such teachers are learnt quickly, and what was learnt is worth retaining.
STRONG = replace(
    MODERN,
    training=replace(MODERN.training, weight_average=0.998),
    short_term=replace(
        MODERN.short_term,
        network="residual",
        batch_size=128,
        steps_per_update=16,
        n_step=3,
        quantiles=32,
        best_window=250_000,
    ),
    # One window, so that the last weights are kept: the loss of a window depends on how much the agent explores in it.
    long_term=replace(
        MODERN.long_term,
        agent_steps=1_000_000,
        targets="advantages",
        learning_rate=1e-4,
        final_epsilon=0.1,
        alpha=0.2,
        late_alpha=0.2,
        best_window=1_000_000,
    ),
    evaluation=replace(MODERN.evaluation, interval=1_000_000),
    methods={**MODERN.methods, "pseudo-rehearsal": {"cutmix": 0.5}, "mixed-rehearsal": {"cutmix": 0.5}},
)

# Vectors, such as those of classic control, on a laptop's CPU: chosen by measuring (docs/lab/vectors.md).
VECTOR = Settings(
    observation=ObservationSettings(frame_stack=1),
    network=NetworkSettings(initialisation="he"),
    optimiser=OptimiserSettings(name="adam", learning_rate=5e-4, epsilon=1e-5, annealing=0.5),
    training=TrainingSettings(
        num_envs=8,
        batch_size=64,
        replay_capacity=100_000,
        learning_starts=1_000,
        steps_per_update=1,
        reward_clip=1_000.0,
        final_epsilon=0.05,
        exploration_steps=40_000,
        weight_average=0.99,
    ),
    # One window per phase: the last weights are kept, those with the lowest learning rate and the most states behind
    # them. Shorter windows kept worse ones: 332 in CartPole where the last weights score 500.
    short_term=ShortTermSettings(
        agent_steps=120_000,
        n_step=3,
        target="munchausen",
        loss="huber",
        target_update_interval=500,
        best_window=120_000,
    ),
    long_term=LongTermSettings(
        agent_steps=40_000, targets="policy", alpha=0.35, late_alpha=0.25, late_from=3, best_window=40_000
    ),
    generator=GeneratorSettings(pseudo_items=100_000),
    evaluation=EvaluationSettings(interval=40_000, min_interval=1_000, epsilon=0.0),
    methods={
        "gan": {
            "latent_size": 32,
            "steps": 20_000,
            "batch_size": 64,
            "gradient_penalty": 1.0,
            "noise": 0.0,
            "average": 0.995,
        },
        "rehearsal": {"capacity": 100_000},
        "limited-rehearsal": {"capacity": 1_000},
        "compressed-rehearsal": {"capacity": 1_000, "max_items": 100_000},
    },
)

# Boards, which are seen as images about as small as those of our arcade games. Rewards are sparser than in those.
BOARD = Settings(
    observation=ObservationSettings(frame_size=16, frame_stack=1),
    network=NetworkSettings(initialisation="he"),
    optimiser=OptimiserSettings(name="adam", learning_rate=5e-4, epsilon=1e-5, annealing=0.5),
    training=TrainingSettings(
        num_envs=16,
        batch_size=64,
        replay_capacity=50_000,
        learning_starts=1_600,
        steps_per_update=4,
        final_epsilon=0.05,
        exploration_steps=15_000,
    ),
    short_term=ShortTermSettings(
        agent_steps=50_000, discount=0.97, n_step=3, target="double", target_update_interval=1_000, best_window=10_000
    ),
    # One window, as in VECTOR.
    long_term=LongTermSettings(
        agent_steps=30_000, targets="policy", alpha=0.35, late_alpha=0.25, late_from=3, best_window=30_000
    ),
    generator=GeneratorSettings(pseudo_items=20_000),
    evaluation=EvaluationSettings(interval=25_000, min_interval=1_000),
    methods=ARCADE.methods,
)

PRESETS: dict[str, Settings] = {
    "paper": PAPER,
    "modern": MODERN,
    "strong": STRONG,
    "arcade": ARCADE,
    "vector": VECTOR,
    "board": BOARD,
}


def main(settings: Settings) -> Settings:
    """The main experiment: the preset as it stands."""
    return settings


def extended(settings: Settings) -> Settings:
    """The six-task experiment: doubled networks, slower and longer long-term learning; methods declare their share."""
    settings = replace(
        settings,
        network=replace(settings.network, width=2 * settings.network.width),
        long_term=replace(
            settings.long_term,
            agent_steps=2 * settings.long_term.agent_steps,
            alpha=0.05,
            late_alpha=0.01,
            late_from=5,  # after the fourth task
        ),
    )
    for name, method in all_methods():
        declared = [f for f in fields(method) if info_of(f).extended > 1]
        larger = {f.name: info_of(f).extended * method_value(settings, name, f) for f in declared}
        settings = with_method_values(settings, name, larger)
    return settings


def short(settings: Settings) -> Settings:
    """The short training scheme of the EWC appendix: 5m instead of 20m agent steps of long-term training."""
    agent_steps = max(settings.long_term.agent_steps // 4, settings.training.num_envs)
    return replace(settings, long_term=replace(settings.long_term, agent_steps=agent_steps))


VARIANTS: dict[str, Callable[[Settings], Settings]] = {"main": main, "extended": extended, "short": short}

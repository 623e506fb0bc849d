"""Every number a run depends on, with the paper's value as its default.

The defaults *are* the paper's tables (dqn-hyp, dqn-arch, gan-arch) and the numbers in its text. All budgets count
agent steps: one agent step, four emulator frames. A field marked `duration` is what `fraction` scales; capacities,
ratios and learning rates are never scaled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def duration(default: int) -> Any:
    """A number of frames or steps that `fraction` multiplies."""
    return field(default=default, metadata={"duration": True})


@dataclass(frozen=True)
class ObservationSettings:
    """What an agent sees."""

    frame_size: int = 84  # Table dqn-arch: 4 x 84 x 84
    frame_stack: int = 4  # Table dqn-hyp: history length


@dataclass(frozen=True)
class NetworkSettings:
    """The size of the DQN; its layers follow from the frame size (networks/q_network.py)."""

    width: int = 1  # 2 doubles every hidden layer (extended experiment)
    initialisation: str = (
        "paper"  # N(0, 0.01) cut at two deviations, biases 0.01; or "he": scaled to the layer's inputs
    )


@dataclass(frozen=True)
class OptimiserSettings:
    """Table dqn-hyp: TensorFlow's RMSProp without centring or momentum, with global-norm clipping."""

    name: str = "rmsprop"  # or "adam"
    learning_rate: float = 2.5e-4
    decay: float = 0.99
    epsilon: float = 1e-6
    max_grad_norm: float = 10.0


@dataclass(frozen=True)
class TrainingSettings:
    """How an agent gathers frames while it learns, in short-term and long-term training alike (Table dqn-hyp)."""

    num_envs: int = 64  # environments stepped at once; 1 is the paper's setting
    batch_size: int = 32
    replay_capacity: int = 200_000
    learning_starts: int = duration(50_000)
    steps_per_update: int = 4
    initial_epsilon: float = 1.0
    final_epsilon: float = 0.1
    exploration_steps: int = duration(1_000_000)


@dataclass(frozen=True)
class ShortTermSettings:
    """Algorithm 1: deep Q-learning of one task."""

    agent_steps: int = duration(20_000_000)
    discount: float = 0.99
    target_update_interval: int = 5_000
    best_window: int = duration(250_000)


@dataclass(frozen=True)
class LongTermSettings:
    """Algorithm 2: distillation of one task into the long-term agent."""

    agent_steps: int = duration(20_000_000)
    alpha: float = 0.55  # weight of the new task against the retained ones
    late_alpha: float = 0.55  # the same from task `late_from` on (extended experiment: after the fourth task)
    late_from: int = 5
    best_window: int = duration(250_000)

    def alpha_for(self, task_number: int) -> float:
        """The weight of the new task when it is the `task_number`-th, counted from one."""
        return self.late_alpha if task_number >= self.late_from else self.alpha


@dataclass(frozen=True)
class GeneratorSettings:
    """Algorithm 3: WGAN-GP with a drift term (Table gan-arch and its text)."""

    latent_size: int = 100
    width: int = 1
    steps: int = duration(200_000)  # discriminator and generator alternate: half of the steps each
    batch_size: int = 100
    learning_rate: float = 1e-3
    beta1: float = 0.0
    beta2: float = 0.99
    epsilon: float = 1e-8
    gradient_penalty: float = 10.0
    drift: float = 1e-6
    noise: float = 10.0  # on the raw pixel scale
    pseudo_items: int = duration(250_000)  # a temporary array; filling it takes time, so it is scaled too


@dataclass(frozen=True)
class RehearsalSettings:
    """How many real items the rehearsal conditions may keep."""

    capacity: int = 250_000
    limited_capacity: int = 600  # raw items in the generator's bytes; the compressed condition has the same bytes


@dataclass(frozen=True)
class EWCSettings:
    """The EWC appendix: the best values of its grid searches."""

    ewc_lambda: float = 300.0
    online_lambda: float = 75.0
    online_gamma: float = 0.99
    fisher_batches: int = 100


@dataclass(frozen=True)
class EvaluationSettings:
    """Whole games at a fixed exploration rate."""

    episodes: int = 30
    epsilon: float = 0.05
    interval: int = duration(1_000_000)
    min_interval: int = 10_000  # a short run is not evaluated more often than this: it would do little else


@dataclass(frozen=True)
class Settings:
    """All settings of a run. `Settings()` is the paper's main experiment."""

    observation: ObservationSettings = ObservationSettings()
    network: NetworkSettings = NetworkSettings()
    optimiser: OptimiserSettings = OptimiserSettings()
    training: TrainingSettings = TrainingSettings()
    short_term: ShortTermSettings = ShortTermSettings()
    long_term: LongTermSettings = LongTermSettings()
    generator: GeneratorSettings = GeneratorSettings()
    rehearsal: RehearsalSettings = RehearsalSettings()
    ewc: EWCSettings = EWCSettings()
    evaluation: EvaluationSettings = EvaluationSettings()

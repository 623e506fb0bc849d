"""Every number a run depends on, with the paper's value as its default.

The defaults *are* the paper's tables (dqn-hyp, dqn-arch, gan-arch) and the numbers in its text. All budgets count
agent steps: one agent step is four emulator frames. `fraction` scales a `duration` and nothing else: never a capacity,
a ratio or a learning rate.

Here are the settings that every run has. The hyper-parameters of a method (a generator, a retention method) are fields
of that method; `Settings.methods` holds the values that a preset or a user gives them (see methods.py).

A default must never change, and a new setting must have one: files contain only the values that differ from the
defaults, so that a new setting changes neither the digest of a finished stage nor the meaning of an old file. To run
with other numbers, change a preset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reaper.config.fields import duration, positive, probability, setting


@dataclass(frozen=True)
class ObservationSettings:
    """What an agent sees."""

    frame_size: int = positive(84, "side of a frame in pixels")  # Table dqn-arch: 4 x 84 x 84
    frame_stack: int = positive(4, "frames stacked into one state")  # Table dqn-hyp: history length
    colour: bool = setting(False, "whether images have colour; else they are grey, as in the paper")
    channels: int = setting(
        0,
        "channels of a board; boards with fewer are padded with zeros; 0: as many as the tasks have",
        minimum=0,
    )
    task_id: str = setting(
        "none",
        "none: the agent recognises a task by its observations; one-hot: they tell which task it is",
        choices=("none", "one-hot"),
    )
    task_names: str = setting(
        "", "with task-id: all tasks that the agent will ever learn, separated by commas; empty: those of the sequence"
    )
    features: int = setting(
        0,
        "numbers in a vector observation; shorter ones are padded with zeros; 0: as many as the longest task has",
        minimum=0,
    )


@dataclass(frozen=True)
class NetworkSettings:
    """The size of the DQN; its layers follow from the observation (networks/q_network.py)."""

    width: int = positive(1, "multiplies every hidden layer; 2 in the extended experiment")
    initialisation: str = setting(
        "paper",
        "paper: N(0, 0.01) cut at two deviations, biases 0.01; he: scaled to the inputs of each layer",
        choices=("paper", "he"),
    )


@dataclass(frozen=True)
class OptimiserSettings:
    """Table dqn-hyp: TensorFlow's RMSProp without centring or momentum, with global-norm clipping."""

    name: str = setting("rmsprop", "rmsprop or adam", choices=("rmsprop", "adam"))
    learning_rate: float = positive(2.5e-4, "learning rate")
    decay: float = probability(0.99, "decay of RMSProp's mean square; unused by Adam")
    epsilon: float = positive(1e-6, "added to the denominator of a step")
    max_grad_norm: float = positive(10.0, "global norm to which gradients are clipped")
    annealing: float = probability(
        0.0, "share of training, at its end, in which the learning rate falls linearly to zero; 0: it is constant"
    )


@dataclass(frozen=True)
class TrainingSettings:
    """How an agent collects experience and learns from it, in short-term and long-term training (Table dqn-hyp)."""

    num_envs: int = positive(64, "environments stepped in parallel; the paper uses 1")
    batch_size: int = positive(32, "items per update")
    replay_capacity: int = positive(200_000, "transitions in the replay buffer")
    learning_starts: int = duration(50_000, "agent steps before the first update", exclusive=False)
    steps_per_update: int = positive(4, "agent steps per update")
    reward_clip: float = positive(1.0, "limit to which rewards are clipped, up and down; scores are never clipped")
    initial_epsilon: float = probability(1.0, "probability of a random action at the start")
    final_epsilon: float = probability(0.1, "probability of a random action after exploration")
    exploration_steps: int = duration(1_000_000, "agent steps over which epsilon falls to its final value")
    # Longer than the longest Atari game: ale-py ends it after 108,000 emulator frames, 27,000 agent steps. `fraction`
    # does not scale it, since games do not get shorter with a budget.
    reset_interval: int = positive(
        30_000, "agent steps of each environment between resets of all; bounds the actions that a resume replays"
    )
    vector_env: bool = setting(
        False,
        "train in a Gymnasium environment's own vector implementation, if it has one: faster, other random numbers",
    )
    weight_average: float = probability(
        0.0, "decay, per step of all environments, of a running average of the weights; that is then kept; 0: none"
    )
    # As many as an evaluation plays. A window of the paper's length has more in every game that it uses.
    best_episodes: int = positive(
        30, "episodes that must finish in a window for its mean score to count; else it grows"
    )


@dataclass(frozen=True)
class ShortTermSettings:
    """Algorithm 1: deep Q-learning of one task."""

    agent_steps: int = duration(20_000_000, "agent steps per task")
    network: str = setting(
        "agent",
        "agent: the network of the long-term agent, which the first teacher becomes; residual: a larger one, from "
        "which the first long-term agent learns, too",
        choices=("agent", "residual"),
    )
    batch_size: int = setting(0, "items per update; 0: training.batch-size", minimum=0)
    steps_per_update: int = setting(0, "agent steps per update; 0: training.steps-per-update", minimum=0)
    discount: float = probability(0.99, "discount factor of returns")
    n_step: int = positive(1, "rewards that a target sums before it bootstraps")
    target: str = setting(
        "dqn",
        "dqn: the target network's largest value; double: its value of the action the network in training prefers; "
        "munchausen: soft values, and a reward for likely actions",
        choices=("dqn", "double", "munchausen"),
    )
    munchausen_temperature: float = positive(0.03, "temperature of the softmax policy in Munchausen targets")
    munchausen_scale: float = setting(0.9, "weight of the log-probability in Munchausen targets", minimum=0)
    munchausen_minimum: float = setting(-1.0, "smallest log-probability times temperature", maximum=0)
    loss: str = setting("squared", "squared or huber: linear above an error of one", choices=("squared", "huber"))
    quantiles: int = positive(
        1, "quantiles of the return learnt per action, by Huber's quantile loss; 1: only the mean, by `loss`"
    )
    target_update_interval: int = positive(5_000, "agent steps between copies to the target network")
    best_window: int = duration(250_000, "agent steps per window; the weights of the best one are kept")


@dataclass(frozen=True)
class LongTermSettings:
    """Algorithm 2: distillation of one task into the long-term agent."""

    agent_steps: int = duration(20_000_000, "agent steps per task")
    targets: str = setting(
        "values",
        "what is distilled where a condition distils Q-values. values: as they are; advantages: the part that differs "
        "between actions, divided by its standard deviation in each task; policy: a softmax of these advantages",
        choices=("values", "advantages", "policy"),
    )
    temperature: float = positive(0.1, "of that softmax")
    learning_rate: float = setting(
        0.0, "learning rate from the second task on; 0: optimiser.learning-rate", minimum=0, from_second_task=True
    )
    final_epsilon: float = setting(
        -1.0,
        "probability of a random action after exploration; negative: training.final-epsilon",
        minimum=-1,
        maximum=1,
    )
    exploration_steps: int = duration(
        0, "agent steps over which epsilon falls; 0: training.exploration-steps", exclusive=False
    )
    alpha: float = probability(0.55, "weight of the new task against the retained ones", from_second_task=True)
    late_alpha: float = probability(0.55, "the same from task `late-from` on", from_second_task=True)
    late_from: int = positive(5, "first task, counted from one, that uses `late-alpha`", from_second_task=True)
    best_window: int = duration(250_000, "agent steps per window; the weights of the best one are kept")

    def alpha_for(self, task_number: int) -> float:
        """The weight of the new task when it is the `task_number`-th, counted from one."""
        return self.late_alpha if task_number >= self.late_from else self.alpha


@dataclass(frozen=True)
class GeneratorSettings:
    """Which generator pseudo-rehearsal uses, and how many states it generates at a time."""

    name: str = setting("gan", "registered name of the generator")
    # Scaled by `fraction`, too: this is a temporary array, and filling it takes time.
    pseudo_items: int = duration(250_000, "states generated per task")


@dataclass(frozen=True)
class FisherSettings:
    """The exact diagonal of the Fisher matrix, for EWC and for the overlap of tasks."""

    batches: int = positive(100, "batches of states per Fisher matrix")


@dataclass(frozen=True)
class EvaluationSettings:
    """Whole episodes at a fixed exploration rate."""

    episodes: int = positive(30, "episodes per task")
    epsilon: float = probability(0.05, "probability of a random action")
    max_steps: int = setting(
        0, "agent steps after which an episode counts as it stands; 0: as many as the task allows", minimum=0
    )
    interval: int = duration(1_000_000, "agent steps between evaluations during training")
    min_interval: int = positive(10_000, "`fraction` does not make the interval shorter than this")


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
    fisher: FisherSettings = FisherSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    # Registered name of a method -> its fields that do not have their default value.
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    # Name of a task with vector observations -> (centres, units) that they are scaled with (tasks/scaling.py). Not for
    # users: planning a study measures them, and everything that is made of its stages keeps them.
    scales: Mapping[str, Any] = field(default_factory=dict, hash=False)

"""The names of format 2, and what they are called in format 3."""

from __future__ import annotations

FORMAT = 2
CHECKSUM = "seal"  # the key of a checksum
PROVENANCE = "made.json"

# Setting -> its default, and what it is called now. A number that two methods share is a setting of each of them now.
SETTINGS: dict[str, tuple[object, tuple[str, ...]]] = {
    "frames.size": (84, ("observation.frame_size",)),
    "frames.history": (4, ("observation.frame_stack",)),
    "network.width": (1, ("network.width",)),
    "network.initialisation": ("paper", ("network.initialisation",)),
    "optimiser.name": ("rmsprop", ("optimiser.name",)),
    "optimiser.learning_rate": (2.5e-4, ("optimiser.learning_rate",)),
    "optimiser.decay": (0.99, ("optimiser.decay",)),
    "optimiser.epsilon": (1e-6, ("optimiser.epsilon",)),
    "optimiser.largest_norm": (10.0, ("optimiser.max_grad_norm",)),
    "play.games": (64, ("training.num_envs",)),
    "play.batch_size": (32, ("training.batch_size",)),
    "play.replay_frames": (200_000, ("training.replay_capacity",)),
    "play.replay_start": (50_000, ("training.learning_starts",)),
    "play.frames_per_update": (4, ("training.steps_per_update",)),
    "play.first_exploration": (1.0, ("training.initial_epsilon",)),
    "play.last_exploration": (0.1, ("training.final_epsilon",)),
    "play.exploration_frames": (1_000_000, ("training.exploration_steps",)),
    "short_term.observed_frames": (20_000_000, ("short_term.agent_steps",)),
    "short_term.discount": (0.99, ("short_term.discount",)),
    "short_term.target_every": (5_000, ("short_term.target_update_interval",)),
    "short_term.best_window": (250_000, ("short_term.best_window",)),
    "long_term.observed_frames": (20_000_000, ("long_term.agent_steps",)),
    "long_term.alpha": (0.55, ("long_term.alpha",)),
    "long_term.late_alpha": (0.55, ("long_term.late_alpha",)),
    "long_term.late_from": (5, ("long_term.late_from",)),
    "long_term.best_window": (250_000, ("long_term.best_window",)),
    "generator.latents": (100, ("gan.latent_size",)),
    "generator.width": (1, ("gan.width",)),
    "generator.steps": (200_000, ("gan.steps",)),
    "generator.batch_size": (100, ("gan.batch_size",)),
    "generator.learning_rate": (1e-3, ("gan.learning_rate",)),
    "generator.first_decay": (0.0, ("gan.beta1",)),
    "generator.second_decay": (0.99, ("gan.beta2",)),
    "generator.epsilon": (1e-8, ("gan.epsilon",)),
    "generator.penalty": (10.0, ("gan.gradient_penalty",)),
    "generator.drift": (1e-6, ("gan.drift",)),
    "generator.noise": (10.0, ("gan.noise",)),
    "generator.pseudo_items": (250_000, ("generator.pseudo_items",)),
    "rehearsal.items": (250_000, ("rehearsal.capacity", "compressed-rehearsal.max_items")),
    "rehearsal.limited_items": (600, ("limited-rehearsal.capacity", "compressed-rehearsal.capacity")),
    "ewc.strength": (300.0, ("ewc.ewc_lambda",)),
    "ewc.online_strength": (75.0, ("online-ewc.ewc_lambda",)),
    "ewc.online_decay": (0.99, ("online-ewc.gamma",)),
    "ewc.fisher_batches": (100, ("fisher.batches",)),
    "evaluation.games": (30, ("evaluation.episodes",)),
    "evaluation.exploration": (0.05, ("evaluation.epsilon",)),
    "evaluation.every": (1_000_000, ("evaluation.interval",)),
    "evaluation.least_every": (10_000, ("evaluation.min_interval",)),
}
METHODS = ("gan", "rehearsal", "limited-rehearsal", "compressed-rehearsal", "ewc", "online-ewc")  # in Settings.methods

# The settings that each kind of stage depended on; a consolidation on all of them.
SHORT_TERM_GROUPS = ("frames", "network", "optimiser", "play", "short_term", "evaluation")
GROUPS: dict[str, tuple[str, ...]] = {
    "short-term": SHORT_TERM_GROUPS,
    "short-term generator": (*SHORT_TERM_GROUPS, "generator"),
    "evaluate": ("frames", "network", "evaluation"),
    "student": (*SHORT_TERM_GROUPS, "long_term", "generator"),
    "fisher": (*SHORT_TERM_GROUPS, "ewc"),
    "overlap": (),
}
# Of which a first long-term memory no longer depends on: they have no effect before there is something to retain.
FROM_SECOND_TASK = (
    "long_term.alpha",
    "long_term.late_alpha",
    "long_term.late_from",
    "ewc.ewc_lambda",
    "online-ewc.ewc_lambda",
    "online-ewc.gamma",
)

OBJECTIVES = {
    "distil": "distillation",
    "distil dreams": "generated distillation",
    "reinforce": "q-learning",
    "alone": "single-task",
}
RETENTIONS = {
    "nothing": "none",
    "compressed rehearsal": "compressed-rehearsal",
    "pseudo-rehearsal": "pseudo-rehearsal",
    "untrained dreams": "untrained-generator",
    "ewc": "ewc",
    "online-ewc": "online-ewc",
}
GENERATOR_RETENTIONS = ("pseudo-rehearsal", "untrained-generator")  # those that depend on the GAN's settings
ITEMS = {"real": "real", "dreamt": "generated"}  # of students
PARENT_ROLES = {"player": "collector"}
SPEC_KEYS = {"actions": "num_actions"}
FILES = {"pictures.safetensors": "states.safetensors"}  # states that a stage stores for the report
STATES = {"real": "real", "dreamt": "generated"}  # tensors in that file
ROW_KEYS = {"observed_frames": "agent_steps"}
OPTIONS = {"scale": "preset"}  # of a command
TITLES = {  # parts of titles of stages
    "dream of ": "train generator on ",
    "evaluate random play": "evaluate random actions",
    "from dreamt items": "from generated items",
    "weights that matter to": "Fisher matrix of",
}

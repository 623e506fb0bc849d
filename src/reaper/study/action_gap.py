"""Whether the values of teachers are worth copying: how much they differ between actions.

Where the actions of a state differ by little of what values differ between states, a network that has copied the
values well still prefers other actions, and other ones after each update. CartPole is the example: one wrong action
among five hundred hardly changes the return. Such teachers of vectors transfer a softmax of their advantages instead.
Images are left alone: there, Q-values have been transferred well with gaps as small as these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from reaper.config.settings import Settings
from reaper.context import Context
from reaper.learning.collection import collect_replay
from reaper.tasks.observation import VECTOR
from reaper.tasks.sequence import Sequence
from reaper.tasks.task import Task
from reaper.teachers.files import TeacherFile
from reaper.teachers.fitting import TaskInSequence, fit

AGENT_STEPS, NUM_ENVS, STATES = 2_000, 8, 1_000
SMALL = (
    0.05  # DQNs of CartPole have 0.01 to 0.02, one of Acrobot 0.035; our arcade agents, which copy well, 0.08 to 0.2
)


def relative_gap(values: torch.Tensor) -> float:
    """(N, num_actions) -> the median over states of the best value minus the second best, in standard deviations of
    all values."""
    if values.shape[1] < 2:
        return float("inf")
    best = values.topk(2, dim=1).values
    return float((best[:, 0] - best[:, 1]).median() / values.std().clamp_min(1e-12))


def measure_gap(file: TeacherFile, task: Task, settings: Settings, num_actions: int) -> float:
    """The relative gap over states that a student will visit: half of them at random, half as the teacher acts; always
    the same ones. `settings` are those of a sequence, complete with the scales of its tasks."""
    training = replace(
        settings.training,
        num_envs=NUM_ENVS,
        replay_capacity=AGENT_STEPS,
        learning_starts=AGENT_STEPS // 2,
        exploration_steps=1,
    )
    short_term = replace(settings.short_term, agent_steps=AGENT_STEPS, n_step=1)
    settings = replace(settings, training=training, short_term=short_term)
    context = Context(settings, num_actions, seed=0, names=("gap", task.name), env_workers=0)
    place = TaskInSequence(task, context.observation, num_actions, settings.scales.get(task.name))
    teacher = fit(file.network, file.weights, place)
    replay = collect_replay(context, teacher, task)
    with torch.no_grad():
        outputs = teacher(replay.sample_states(STATES, context.rng("states")))
    return relative_gap(outputs[:, : task.num_actions])


def small_gaps(files: Mapping[str, TeacherFile], sequence: Sequence, settings: Settings) -> dict[str, float]:
    """The tasks with vectors whose teachers have values that hardly differ between actions."""
    if sequence.kind != VECTOR or settings.long_term.targets == "policy":
        return {}
    if any(file.outputs != "values" for file in files.values()):
        return {}  # all of them transfer policies anyway
    complete, tasks = sequence.complete(settings), {task.name: task for task in sequence.tasks}
    gaps = {name: measure_gap(file, tasks[name], complete, sequence.num_actions) for name, file in files.items()}
    return {name: gap for name, gap in gaps.items() if gap < SMALL}


def gap_notice(gaps: Mapping[str, float]) -> str:
    names = ", ".join(f"{name} ({gap:.3f})" for name, gap in gaps.items())
    return (
        f"values of the best two actions differ by less than {SMALL} of the spread of all values for the teachers of "
        f"{names}: too little to copy, so a softmax of advantages is transferred (--long-term.targets values: values)"
    )

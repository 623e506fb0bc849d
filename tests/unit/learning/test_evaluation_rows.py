"""Evaluations: their progress, their rows, and those that an interruption left over."""

from dataclasses import replace

import numpy as np
import torch
from conftest import TINY
from evaluations import CATCH, DODGE, new_context, new_job

from reaper.config.overrides import with_overrides
from reaper.context import state_tensors
from reaper.learning.evaluation.blocking import BlockingEvaluator
from reaper.learning.evaluation.episodes import evaluate, measure_pace, running_returns
from reaper.progress import CurvePoints, PhaseProgress, Progress
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.task import Step, Task, VectorTask


def events_of(run):
    events = []
    context = new_context(concurrent=False, progress=Progress(events.append, min_interval=0.0))
    return run(context), events


def test_progress_counts_finished_episodes():
    """Catch has no lives: both of its episodes end with the last step that is allowed."""
    _, events = events_of(lambda context: evaluate(context, None, CATCH, 7))
    inside = [event for event in events if event.phase == "evaluate Catch"]
    assert {(event.total, event.unit) for event in inside} == {(2, "episodes")}
    assert [event.done for event in inside] == [0] * TINY["evaluation.max-steps"] + [2]


def test_an_episode_that_takes_too_long_counts_as_it_stands():
    context = new_context(concurrent=False)
    allowed = context.settings.evaluation.max_steps
    every = replace(context, settings=with_overrides(context.settings, {"evaluation.max-steps": 0}))
    running = [returns.copy() for returns, _ in running_returns(every, None, CATCH, (7,))]
    assert len(running) > allowed
    assert not np.array_equal(running[allowed - 1], running[-1])
    assert evaluate(context, None, CATCH, 7)["scores"] == running[allowed - 1].tolist()


def test_progress_never_runs_backwards_where_episodes_end_one_by_one():
    _, events = events_of(lambda context: evaluate(context, None, DODGE, 7))
    done = [event.done for event in events if isinstance(event, PhaseProgress) and event.phase == "evaluate Dodge"]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 2)


def test_an_evaluation_that_was_interrupted_between_two_tasks_repeats_neither():
    context = new_context(concurrent=False)
    evaluator = BlockingEvaluator(context, context.q_network())
    evaluator.evaluate([CATCH, DODGE], 120)
    resumed = BlockingEvaluator(context, context.q_network())
    state = evaluator.state()
    resumed.restore({**state, "tasks_done": 1, "rows": state["rows"]})
    resumed.evaluate([CATCH, DODGE], 240)
    assert [(row["task"], row["agent_steps"]) for row in resumed.finish()[2:]] == [("dodge", 240)]
    resumed.evaluate([CATCH, DODGE], 360)
    assert [(row["task"], row["agent_steps"]) for row in resumed.finish()[3:]] == [("catch", 360), ("dodge", 360)]
    assert resumed.state()["tasks_done"] == 0


def test_a_mean_score_is_logged_per_row():
    def run(context):
        evaluator = BlockingEvaluator(context, context.q_network())
        evaluator.add({"task": "catch", "agent_steps": 5, "scores": [1.0, 2.0, 6.0]})

    _, events = events_of(run)
    assert events == [CurvePoints(5, {"evaluation/catch": 3.0})]


def test_outstanding_evaluations_run_before_others_with_their_own_weights():
    context = new_context(concurrent=False)
    network, other = context.q_network(), context.q_network()
    with torch.no_grad():
        other.values.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 100.0, 0.0]))  # always to the right
    evaluator = BlockingEvaluator(context, network)
    evaluator.inherited = [new_job(60, ("catch", "dodge"), state_tensors(other)), new_job(120, ("catch",))]
    again = BlockingEvaluator(context, network)
    again.restore(evaluator.state())
    again.evaluate([CATCH], 240)
    rows = again.finish()
    assert [(row["agent_steps"], row["task"]) for row in rows] == [
        (60, "catch"),
        (60, "dodge"),
        (120, "catch"),
        (240, "catch"),
    ]
    assert rows[0] == evaluate(context, other, CATCH, 60)
    assert again.inherited == []


def test_a_pace_counts_the_steps_after_the_first():
    context = new_context(concurrent=False)
    whole = measure_pace(context, context.q_network(), CATCH, seconds=60.0)
    assert (whole.steps, whole.whole) == (TINY["evaluation.max-steps"] - 1, True)
    assert 0 < whole.seconds < 60
    assert 0 < whole.startup < 60
    part = measure_pace(context, context.q_network(), CATCH, seconds=0.0)
    assert (part.steps, part.whole) == (1, False)
    assert 0 < part.startup < 60
    assert 0 < part.seconds < 60


class Scripted(VectorTask):
    """Two environments with rewards by the number of the step; their episodes take two and four steps."""

    name, num_envs, num_actions, may_use_gpu = "scripted", 2, 6, False
    observation = ObservationSpec((1, 16, 16))
    rewards = np.array([[3.0, 0.5], [-0.25, 1.0], [100.0, 0.0], [100.0, -8.0]], np.float32)

    def __init__(self):
        self.seeds, self.taken, self.closed = [], [], False

    def reset(self, seed):
        self.seeds.append(seed)
        self.steps = 0
        return np.zeros((2, 1, 16, 16), np.uint8)

    def send(self, actions):
        self.taken.append(actions.tolist())

    def receive(self):
        step, none = self.steps, np.zeros(2, bool)
        self.steps += 1
        ends = np.array([step == 1, step == 3])
        return Step(np.zeros((2, 1, 16, 16), np.uint8), self.rewards[step], ends, none, none, none)

    def close(self):
        self.closed = True


def test_a_return_is_the_sum_of_one_episodes_rewards_in_each_environment():
    envs = Scripted()
    task = Task("scripted", "Scripted", 6, lambda options: envs, envs.observation)
    context = new_context(concurrent=False)
    seen = [(returns.tolist(), done) for returns, done in running_returns(context, None, task, (7,))]
    assert seen == [([3.0, 0.5], 0), ([2.75, 1.5], 1), ([2.75, 1.5], 1), ([2.75, -6.5], 2)]
    assert envs.closed
    again = Scripted()
    row = evaluate(context, context.q_network(), task, 7, again)
    assert row == {"task": "scripted", "agent_steps": 7, "scores": [2.75, -6.5]}
    assert not again.closed, "environments that are passed in stay open"
    assert again.seeds == envs.seeds == [context.derive_seed("evaluation games", "scripted", 7)]


def test_without_a_network_every_action_is_random_and_with_one_hardly_any():
    context = new_context(concurrent=False)
    network = context.q_network()
    with torch.no_grad():
        network.values.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 9.0, 0.0, 0.0]))
    taken = {}
    for name, player in (("random", None), ("greedy", network)):
        taken[name] = []
        for number in range(40):
            envs = Scripted()
            task = Task("scripted", "Scripted", 6, lambda options, envs=envs: envs, envs.observation)
            evaluate(context, player, task, number)
            taken[name] += [action for actions in envs.taken for action in actions]
    assert set(taken["random"]) == set(range(6))
    assert 0.1 < np.mean(np.array(taken["random"]) == 3) < 0.25  # one of six
    assert 0.9 < np.mean(np.array(taken["greedy"]) == 3) < 1  # but for epsilon, 0.05

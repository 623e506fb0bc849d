"""Agents of Stable-Baselines3 are read without executing anything, and answer as SB3's own code does."""

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DQN, PPO
from unit.teachers.agents import observations, sb3_agent, sb3_outputs

from reaper.errors import UserError
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.scaling import Scale
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task
from reaper.teachers.fitting import TaskInSequence, action_map, check_shape, fit
from reaper.teachers.sources import open_teacher

CARTPOLE = Task("CartPole-v1", "CartPole", 2, lambda options: None)
GAME = Task("game", "Game", 6, lambda options: None)
IMAGES = ObservationSpec((4, 84, 84), frame_stack=4)
VECTORS = ObservationSpec((4,), "float32", "vector")


def answers(path, states):
    images = states.dtype == "uint8"
    observation, task = (IMAGES, GAME) if images else (VECTORS, CARTPOLE)
    found = open_teacher(f"sb3:{path}", observation)
    with torch.no_grad():
        outputs = fit(found.network, found.weights, TaskInSequence(task, observation, task.num_actions))(
            torch.as_tensor(states)
        )
    return found, outputs if found.outputs == "values" else outputs.log_softmax(dim=1)


def algorithms():
    return [(DQN, "values"), (PPO, "logits"), (A2C, "logits")]


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
@pytest.mark.parametrize(("algorithm", "kind"), algorithms())
def test_outputs_equal_those_of_sb3(algorithm, kind, policy, trained, tmp_path):
    model = sb3_agent(algorithm, policy, trained)
    model.save(tmp_path / "agent.zip")
    states = observations(model)
    found, outputs = answers(tmp_path / "agent.zip", states)
    assert found.outputs == kind
    torch.testing.assert_close(outputs, sb3_outputs(model, states), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("algorithm", "policy", "policy_kwargs"),
    [
        (DQN, "MlpPolicy", {"net_arch": [32, 16, 8], "activation_fn": torch.nn.Tanh}),
        (PPO, "MlpPolicy", {"net_arch": {"pi": [24], "vf": [8, 8]}, "activation_fn": torch.nn.ReLU}),
        (PPO, "MlpPolicy", {"net_arch": []}),
        (PPO, "CnnPolicy", {"share_features_extractor": False, "net_arch": {"pi": [32], "vf": [16]}}),
        (A2C, "CnnPolicy", {"normalize_images": False, "features_extractor_kwargs": {"features_dim": 64}}),
        (DQN, "CnnPolicy", {"net_arch": [64]}),
    ],
)
def test_sizes_activations_and_scaling_are_those_of_the_agent(algorithm, policy, policy_kwargs, tmp_path):
    model = sb3_agent(algorithm, policy, **policy_kwargs)
    model.save(tmp_path / "agent.zip")
    states = observations(model, 50)
    torch.testing.assert_close(
        answers(tmp_path / "agent.zip", states)[1], sb3_outputs(model, states), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
def test_the_values_of_qr_dqn_are_means_over_quantiles(policy, trained, tmp_path):
    contrib = pytest.importorskip("sb3_contrib")
    model = sb3_agent(contrib.QRDQN, policy, trained)
    model.save(tmp_path / "agent.zip")
    states = observations(model)
    found, outputs = answers(tmp_path / "agent.zip", states)
    assert found.network["quantiles"] == 200
    torch.testing.assert_close(outputs, sb3_outputs(model, states), rtol=0, atol=1e-5)


def test_the_same_weights_have_the_same_contents_whatever_their_file(tmp_path):
    model = sb3_agent(DQN, "MlpPolicy")
    model.save(tmp_path / "one.zip")
    model.learn(0)
    model.verbose = 1
    model.save(tmp_path / "two.zip")
    one, two = (open_teacher(f"sb3:{tmp_path / name}.zip", VECTORS) for name in ("one", "two"))
    assert one.contents == two.contents
    with torch.no_grad():
        next(model.policy.q_net.parameters()).add_(1e-3)
    model.save(tmp_path / "two.zip")
    assert open_teacher(f"sb3:{tmp_path}/two.zip", VECTORS).contents != one.contents


def test_a_minimal_action_set_is_mapped_to_the_joystick():
    breakout = TaskInSequence(find_task("ALE/Breakout-v5"), IMAGES, 18)  # NOOP, FIRE, RIGHT, LEFT
    mapped = action_map(4, breakout)
    #      NOOP FIRE UP RIGHT LEFT DOWN UPRIGHT UPLEFT DOWNRIGHT DOWNLEFT
    assert mapped[:10] == [0, 1, 0, 2, 3, 0, 2, 3, 2, 3]
    assert action_map(18, breakout) == list(range(18))
    with pytest.raises(UserError, match="has 5 actions; the game has 4 or 18"):
        action_map(5, breakout)


def test_scaled_and_padded_vectors_become_the_tasks_own_again(tmp_path):
    """As a sequence with longer vectors shows CartPole: scaled, and padded with zeros."""
    model = sb3_agent(DQN, "MlpPolicy")
    model.save(tmp_path / "agent.zip")
    task, scale = find_task("CartPole-v1"), ((0.1, 0.0, -0.2, 1.0), (0.5, 2.0, 0.1, 1.5))
    place = TaskInSequence(task, ObservationSpec((12,), "float32", "vector", frame_stack=2), 3, scale)
    found = open_teacher(f"sb3:{tmp_path}/agent.zip", VECTORS)
    states = observations(model)
    newest = np.pad(Scale(*scale).apply(states), ((0, 0), (0, 2)))
    stacked = torch.tensor(np.concatenate([np.zeros_like(newest), newest], axis=1))
    outputs = fit(found.network, found.weights, place)(stacked)
    torch.testing.assert_close(outputs[:, :2], sb3_outputs(model, states), rtol=0, atol=1e-5)
    with pytest.raises(UserError, match="sees 4 numbers, and the task has 6"):
        check_shape(place._replace(task=find_task("Acrobot-v1")), (4,))

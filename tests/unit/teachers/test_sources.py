"""The other sources of teachers: CleanRL's files, agents of ours, and Python functions."""

import numpy as np
import pytest
import torch
from torch import nn

import reaper
from reaper.errors import UserError
from reaper.storage.store import Store
from reaper.tasks.observation import ObservationSpec
from reaper.tasks.sequence import find_task
from reaper.tasks.task import Task
from reaper.teachers.fitting import ImageView, TaskInSequence, check_shape, fit
from reaper.teachers.functions import PROBES
from reaper.teachers.sources import open_teacher

VECTORS = ObservationSpec((4,), "float32", "vector")
IMAGES = ObservationSpec((4, 84, 84), frame_stack=4)
ARCADE = ObservationSpec((2, 16, 16), frame_stack=2)
CARTPOLE = Task("CartPole-v1", "CartPole", 2, lambda options: None)


def fitted(source, task, observation, num_actions=None):
    found = open_teacher(source, observation)
    return found, fit(found.network, found.weights, TaskInSequence(task, observation, num_actions or task.num_actions))


def cnn(*last):
    convolutions = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1)]
    return nn.Sequential(*convolutions, nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), *last)


class Scripts:
    """The networks of CleanRL's scripts, as those define them."""

    class Dqn(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2)]
            self.network = nn.Sequential(*layers)

        def forward(self, x):
            return self.network(x)

    class DqnAtari(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = cnn(nn.Linear(512, 6))

        def forward(self, x):
            return self.network(x / 255.0)

    class C51(Dqn):
        def __init__(self):
            super().__init__()
            self.network[-1] = nn.Linear(84, 2 * 101)
            self.register_buffer("atoms", torch.linspace(-100, 100, 101))

        def forward(self, x):
            probabilities = torch.softmax(self.network(x).view(len(x), 2, 101), dim=2)
            return (probabilities * self.atoms).sum(2)

    class C51Atari(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = cnn(nn.Linear(512, 6 * 51))
            self.register_buffer("atoms", torch.linspace(-10, 10, 51))

        def forward(self, x):
            probabilities = torch.softmax(self.network(x / 255.0).view(len(x), 6, 51), dim=2)
            return (probabilities * self.atoms).sum(2)

    class Ppo(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic, self.actor = (
                nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))
                for out in (1, 2)
            )

        def forward(self, x):
            return self.actor(x)

    class PpoAtari(nn.Module):
        def __init__(self):
            super().__init__()
            self.network, self.actor, self.critic = cnn(), nn.Linear(512, 6), nn.Linear(512, 1)

        def forward(self, x):
            return self.actor(self.network(x / 255.0))


@pytest.mark.parametrize(
    ("name", "script", "outputs"),
    [
        ("dqn", Scripts.Dqn, "values"),
        ("dqn_atari", Scripts.DqnAtari, "values"),
        ("c51", Scripts.C51, "values"),
        ("c51_atari", Scripts.C51Atari, "values"),
        ("ppo", Scripts.Ppo, "logits"),
        ("ppo_atari", Scripts.PpoAtari, "logits"),
    ],
)
def test_networks_of_cleanrl_answer_as_their_scripts_do(name, script, outputs, tmp_path):
    torch.manual_seed(0)
    network, rng = script(), np.random.default_rng(0)
    weights = network.state_dict()
    saved = {"model_weights": weights, "args": {"seed": 1, "env_id": "x"}} if name.startswith("c51") else weights
    torch.save(saved, tmp_path / "run.cleanrl_model")
    images = name.endswith("atari")
    task, observation = (Task("game", "Game", 6, lambda options: None), IMAGES) if images else (CARTPOLE, VECTORS)
    found, teacher = fitted(f"cleanrl:{name}:{tmp_path}/run.cleanrl_model", task, observation)
    states = torch.tensor(
        rng.integers(0, 256, (100, 4, 84, 84), dtype=np.uint8) if images else rng.standard_normal((100, 4), np.float32)
    )
    assert found.outputs == outputs
    torch.testing.assert_close(teacher(states), network(states.float()), rtol=0, atol=1e-5)


def test_an_architecture_of_cleanrl_has_to_be_named_and_to_fit(tmp_path):
    torch.save(Scripts.Ppo().state_dict(), tmp_path / "file")
    with pytest.raises(UserError, match="names no architecture: cleanrl:ARCHITECTURE:FILE with dqn, dqn_atari"):
        open_teacher(f"cleanrl:{tmp_path}/file", VECTORS)
    with pytest.raises(UserError, match="did you mean 'ppo'"):
        open_teacher(f"cleanrl:ppos:{tmp_path}/file", VECTORS)
    with pytest.raises(UserError, match=r"no dqn: network.0.weight is missing.*keys found: critic.0.weight \(64, 4\)"):
        open_teacher(f"cleanrl:dqn:{tmp_path}/file", VECTORS)
    distributional = Scripts.C51().state_dict()
    torch.save(distributional, tmp_path / "file")
    with pytest.raises(UserError, match="no dqn but C51: it has atoms"):
        open_teacher(f"cleanrl:dqn:{tmp_path}/file", VECTORS)
    torch.save({**distributional, "atoms": torch.zeros(7)}, tmp_path / "file")
    with pytest.raises(UserError, match="do not fit observations"):
        open_teacher(f"cleanrl:c51:{tmp_path}/file", VECTORS)
    torch.save({**distributional, "atoms": torch.zeros(2, 101)}, tmp_path / "file")
    with pytest.raises(UserError, match=r"atoms of shape \(2, 101\)"):
        open_teacher(f"cleanrl:c51:{tmp_path}/file", VECTORS)


def test_agents_of_ours_are_teachers(tiny_run):
    agent = reaper.load(tiny_run, condition="RePR")
    record = next(run for run in Store.open(tiny_run).runs() if run.condition_name == "RePR")
    stage = Store.open(tiny_run).stage(record.teachers[1])
    states = torch.randint(0, 256, (20, 2, 16, 16), dtype=torch.uint8)
    task = find_task("dodge")
    of_memory = fitted(str(tiny_run / "stages" / record.memories[-1]), task, ARCADE, agent.context.num_actions)
    of_teacher = fitted(str(stage.folder), task, ARCADE, agent.context.num_actions)
    assert (of_memory[0].outputs, of_teacher[0].outputs) == ("values", "values")
    assert torch.equal(of_memory[1](states), agent.network(states))
    assert torch.equal(of_teacher[1](states), agent.context.q_network(stage.tensors("agent"))(states))


def test_a_pretrained_agent_is_a_teacher():
    agent = reaper.load("pretrained:arcade-3")
    states = torch.randint(0, 256, (20, 2, 16, 16), dtype=torch.uint8)
    _, teacher = fitted("pretrained:arcade-3", find_task("catch"), ARCADE, agent.context.num_actions)
    assert torch.equal(teacher(states), agent.network(states))


def test_frames_are_selected_and_resized_as_the_teacher_sees_them():
    states = torch.randint(0, 256, (3, 4, 8, 8), dtype=torch.uint8)
    place = TaskInSequence(CARTPOLE, ObservationSpec((4, 8, 8), frame_stack=4), 2)
    newest = ImageView((2, 8, 8), True)(states)
    assert torch.equal(newest, states[:, 2:].float() / 255)
    larger = ImageView((4, 16, 16), False)(states)
    assert torch.equal(larger, states.float().repeat_interleave(2, 2).repeat_interleave(2, 3))
    smaller = ImageView((4, 4, 4), False)(states)
    means = states.float().reshape(3, 4, 4, 2, 4, 2).mean(dim=(3, 5))
    assert torch.equal(smaller, means.round())
    with pytest.raises(UserError, match=r"sees 6x8x8.*--observation.frame-stack 6"):
        check_shape(place, (6, 8, 8))
    with pytest.raises(UserError, match="sees 4, and this sequence stacks of 4"):
        check_shape(place, (4,))


# -- functions


def doubled(states):
    return np.stack([states.sum(axis=1), 2 * states.sum(axis=1)], axis=1)


def test_a_function_is_a_teacher_by_name_or_itself():
    states = torch.tensor(np.random.default_rng(0).standard_normal((5, 4), np.float32))
    for source in (doubled, "unit.teachers.test_sources:doubled", lambda states: torch.tensor(doubled(states))):
        found, teacher = fitted(source, CARTPOLE, VECTORS, num_actions=3)
        assert (found.outputs, found.num_actions) == ("values", 2)
        answers = torch.tensor(doubled(states.numpy()))
        assert torch.equal(teacher(states), answers[:, [0, 1, 0]])  # an action it does not have is action 0


def test_a_function_that_returns_logits_says_so():
    def logits(states):
        return doubled(states)

    logits.outputs = "logits"
    assert open_teacher(logits, VECTORS).outputs == "logits"
    logits.outputs = "advantages"
    with pytest.raises(UserError, match="values or logits, not 'advantages'"):
        open_teacher(logits, VECTORS)


def test_functions_with_other_answers_have_other_contents():
    assert open_teacher(doubled, VECTORS).contents == open_teacher(doubled, VECTORS).contents
    scaled = "unit.teachers.test_sources:tripled"
    assert open_teacher(scaled, VECTORS).weights["answers"].shape == (PROBES, 2)
    assert open_teacher(scaled, VECTORS).contents != open_teacher(doubled, VECTORS).contents


def tripled(states):
    return doubled(states) * 1.5


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda states: np.zeros(len(states)), r"shape \(64,\), not \(64, number of actions\)"),
        (lambda states: np.zeros((3, 2)), r"shape \(3, 2\), not \(64"),
        (lambda states: np.full((len(states), 2), np.nan), "not finite"),
        (lambda states: "no", "no array of numbers"),
        (lambda states: [[1, 2], [3]], "no array of numbers"),
        (lambda states: 1 / 0, "failed: ZeroDivisionError"),
    ],
)
def test_what_a_function_returns_is_checked(function, match):
    with pytest.raises(UserError, match=match):
        open_teacher(function, VECTORS)


def test_the_number_of_actions_has_to_be_the_tasks():
    with pytest.raises(UserError, match="the teacher of CartPole-v1 has 3 actions, and the task 2"):
        fitted(lambda states: np.zeros((len(states), 3)), CARTPOLE, VECTORS)


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("no_such_module:function", "cannot be imported"),
        ("unit.teachers.test_sources:nothing", "has no nothing"),
        ("unit.teachers.test_sources:PROBES", "is no function but int"),
        ("some words", "no source of a teacher: sb3:FILE, cleanrl:FILE"),
    ],
)
def test_a_source_that_is_none_is_one_line(source, match):
    with pytest.raises(UserError, match=match):
        open_teacher(source, VECTORS)

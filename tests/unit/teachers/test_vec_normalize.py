"""Statistics of VecNormalize, as plain arrays beside an agent; and observations that SB3 itself makes vectors of."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from unit.teachers.agents import sb3_agent, sb3_outputs
from unit.teachers.zips import write_sb3

from reaper.errors import UserError
from reaper.tasks.observation import ObservationSpec, vector_spec
from reaper.tasks.task import Task
from reaper.teachers.fitting import TaskInSequence, fit
from reaper.teachers.sources import open_teacher

VECTORS = ObservationSpec((4,), "float32", "vector")
CARTPOLE = Task("CartPole-v1", "CartPole", 2, lambda options: None)


def statistics(path, **changes):
    given = {"mean": np.array([1.0, -2.0, 0.5, 30.0]), "var": np.array([4.0, 0.01, 1.0, 900.0]), "epsilon": 1e-8}
    np.savez(
        path, **{name: value for name, value in {**given, "clip_obs": 10.0, **changes}.items() if value is not None}
    )
    return path


def outputs_of(source, states, task=CARTPOLE, observation=VECTORS):
    found = open_teacher(source, observation)
    return fit(found.network, found.weights, TaskInSequence(task, observation, task.num_actions))(torch.tensor(states))


@pytest.mark.parametrize("algorithm", [DQN, PPO])
def test_outputs_are_those_behind_vec_normalize(algorithm, tmp_path):
    model = sb3_agent(algorithm, "MlpPolicy")
    model.save(tmp_path / "agent.zip")
    normalise = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]), clip_obs=3.0, training=False)
    rng = np.random.default_rng(0)
    normalise.obs_rms.mean, normalise.obs_rms.var = rng.normal(size=4) * 5, rng.uniform(0.1, 50, 4)
    env = normalise
    np.savez(tmp_path / "s.npz", mean=env.obs_rms.mean, var=env.obs_rms.var, epsilon=env.epsilon, clip_obs=env.clip_obs)
    states = rng.normal(size=(1_000, 4)).astype(np.float32) * 20
    expected = sb3_outputs(model, normalise.normalize_obs(states))
    outputs = outputs_of(f"sb3:{tmp_path}/agent.zip,{tmp_path}/s.npz", states)
    if algorithm is PPO:
        outputs = outputs.log_softmax(dim=1)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-5)
    assert (np.abs(normalise.normalize_obs(states)) == 3).any()  # some were clipped


def test_statistics_change_what_an_agent_is_and_have_defaults(tmp_path):
    source = write_sb3(tmp_path / "a.zip", shape=(4,), num_actions=2, dtype="float32")
    plain = open_teacher(source, VECTORS)
    whole = open_teacher(f"{source},{statistics(tmp_path / 's.npz')}", VECTORS)
    short = open_teacher(f"{source},{statistics(tmp_path / 't.npz', epsilon=None, clip_obs=None)}", VECTORS)
    assert plain.contents != whole.contents == short.contents


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"mean": None}, "holds no mean; it has var"),
        ({"mean": np.zeros(3)}, r"mean has shape \(3,\), and the agent sees 4 numbers"),
        ({"var": np.full(4, np.nan)}, "var must be finite"),
        ({"var": np.full(4, -1.0)}, "must be above 0"),
        ({"clip_obs": 0.0}, "must be above 0"),
        ({"clip_obs": np.ones(2)}, "clip_obs must be finite and one number"),
        ({"mean": np.array(["a"] * 4)}, "mean is no array of numbers"),
        ({"mean": np.array([{}] * 4)}, "mean is no array of numbers"),
    ],
)
def test_wrong_statistics_are_one_line(changes, match, tmp_path):
    source = write_sb3(tmp_path / "a.zip", shape=(4,), num_actions=2, dtype="float32")
    with pytest.raises(UserError, match=match) as caught:
        open_teacher(f"{source},{statistics(tmp_path / 's.npz', **changes)}", VECTORS)
    assert "architecture" not in str(caught.value)


def test_a_pickle_of_statistics_is_never_opened_but_mentioned(tmp_path):
    source = write_sb3(tmp_path / "a.zip", shape=(4,), num_actions=2, dtype="float32")
    assert open_teacher(source, VECTORS).remarks == ()
    (tmp_path / "vec_normalize.pkl").write_bytes(b"cos\nabort\n(tR.")
    (remark,) = open_teacher(source, VECTORS).remarks
    assert "vec_normalize.pkl lies next to the agent and is not used" in remark
    assert open_teacher(f"{source},{statistics(tmp_path / 's.npz')}", VECTORS).remarks == ()
    with pytest.raises(UserError, match="is a pickle, which is never opened; save them with np"):
        open_teacher(f"{source},{tmp_path}/vec_normalize.pkl", VECTORS)
    with pytest.raises(UserError, match="is no file"):
        open_teacher(f"{source},{tmp_path}/missing.npz", VECTORS)
    images = write_sb3(tmp_path / "b.zip")
    with pytest.raises(UserError, match="only vectors can be normalised"):
        open_teacher(f"{images},{tmp_path}/s.npz", VECTORS)


class Parts(gymnasium.Env):
    """Observations of several parts, or discrete ones."""

    action_space = spaces.Discrete(3)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


DICT = spaces.Dict({"z": spaces.Box(-1, 1, (3,)), "a": spaces.Discrete(4), "m": spaces.Box(-1, 1, (2, 2))})


@pytest.mark.parametrize(
    ("space", "policy"),
    [(DICT, "MultiInputPolicy"), (spaces.Discrete(5), "MlpPolicy"), (spaces.MultiBinary(6), "MlpPolicy")],
)
def test_parts_and_discrete_observations_are_the_vectors_that_tasks_emit(space, policy, tmp_path):
    model = PPO(policy, Parts(space), n_steps=8, batch_size=8, seed=0, device="cpu")
    model.save(tmp_path / "agent.zip")
    space.seed(0)
    seen = [space.sample() for _ in range(100)]
    flat = np.stack([spaces.flatten(space, observation) for observation in seen]).astype(np.float32)
    task, observation = Task("parts", "Parts", 3, lambda options: None), vector_spec(flat.shape[1])
    outputs = outputs_of(f"sb3:{tmp_path}/agent.zip", flat, task, observation).log_softmax(dim=1)
    with torch.no_grad():
        own = [model.policy.get_distribution(model.policy.obs_to_tensor(o)[0]).distribution.logits for o in seen]
    torch.testing.assert_close(outputs, torch.cat(own), rtol=0, atol=1e-5)


def test_an_image_among_the_parts_is_refused_with_the_keys(tmp_path):
    space = spaces.Dict({"image": spaces.Box(0, 255, (1, 36, 36), np.uint8), "speed": spaces.Box(-1, 1, (2,))})
    PPO("MultiInputPolicy", Parts(space), n_steps=8, batch_size=8, device="cpu").save(tmp_path / "agent.zip")
    with pytest.raises(UserError, match=r"features_extractor.cnn.0.weight is missing.*keys found: features_extractor"):
        open_teacher(f"sb3:{tmp_path}/agent.zip", VECTORS)

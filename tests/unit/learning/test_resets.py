"""When environments are reset: never by an evaluation, and on a schedule that an interrupted run keeps, too."""

import pytest
from conftest import TINY
from long_game import EPISODE, LONG_GAME, LongGame

from reaper.config.overrides import at_fraction, with_overrides
from reaper.config.presets import ARCADE, PAPER
from reaper.context import Context
from reaper.errors import Stopped
from reaper.learning.collection import ReplayCollection
from reaper.learning.short_term import ShortTerm
from reaper.progress import PhaseProgress, Progress
from reaper.state import State, clone_state, flatten, unflatten
from reaper.storage.checkpoints import Checkpointer

ENVS, INTERVAL, TOTAL = 4, 120, 480  # an evaluation after every 30 agent steps of each environment
SETTINGS = with_overrides(ARCADE, {**TINY, "short-term.agent-steps": TOTAL})


def resetting(interval: int = 50, **others):
    """Settings with resets after so many agent steps of each environment."""
    return with_overrides(SETTINGS, {"training.reset-interval": interval, **others})


class Killed(Exception):
    """In place of SIGKILL."""


class KillingCheckpointer(Checkpointer):
    """Saves its first checkpoint at these agent steps, in this phase and in memory; then the run is killed."""

    def __init__(self, at: int, phase: str = "learn", **options) -> None:
        super().__init__(**options)
        self.at, self.phase = at, phase
        self.state: State = {}
        self.learner: ShortTerm | None = None

    def maybe_save(self, work: int = 0) -> None:
        super().maybe_save(work)
        assert self.learner is not None
        trainer = self.learner.trainer
        if (trainer.agent_steps, trainer.context.progress.phase) == (self.at, self.phase):
            tensors, others = flatten(clone_state(self.parts.state()))
            self.state = unflatten({**tensors, **others})
            raise Killed


def new_learner(settings=SETTINGS, *, checkpointer=None, state=None, send=None) -> ShortTerm:
    """Short-term learning of the long game; `state` is that of the checkpoint to resume from."""
    checkpointer = checkpointer or Checkpointer()
    checkpointer._found = state or {}
    progress = Progress(send, min_interval=0.0)
    context = Context(settings, LONG_GAME.num_actions, 0, ("learn",), progress=progress, checkpointer=checkpointer)
    learner = ShortTerm(context, LONG_GAME)
    if isinstance(checkpointer, KillingCheckpointer):
        checkpointer.learner = learner
    return learner


def train(learner: ShortTerm) -> ShortTerm:
    learner.trainer.run("learn", learner.settings.agent_steps, [LONG_GAME])
    return learner


def checkpoint(at: int, phase: str = "learn", settings=SETTINGS) -> State:
    """The last checkpoint of a run that was killed then."""
    killing = KillingCheckpointer(at, phase)
    with pytest.raises(Killed):
        train(new_learner(settings, checkpointer=killing))
    return killing.state


def envs_of(learner: ShortTerm | ReplayCollection) -> LongGame:
    envs = learner.experience.actor.envs
    assert isinstance(envs, LongGame)
    return envs


def everything(learner: ShortTerm):
    """Whatever a checkpoint would hold, as bytes and plain values."""
    tensors, others = flatten({"trainer": learner.trainer.state(), "q": learner.q_learning.parts.state()})
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}, others


def test_episodes_longer_than_the_evaluation_interval_finish(monkeypatch):
    learner, returns = new_learner(), []
    monkeypatch.setattr(learner.trainer.log, "add_returns", returns.extend)
    train(learner)
    assert [row["agent_steps"] for row in learner.trainer.evaluator.rows] == [120, 240, 360, 480]
    assert returns == [EPISODE] * ENVS * (TOTAL // ENVS // (EPISODE + 1))  # all of them, and whole ones


def test_late_states_enter_the_replay_and_no_episode_is_cut():
    replay = train(new_learner()).experience.replay
    assert replay.size.tolist() == [100] * ENVS  # full: the last 100 of 118 transitions
    ages = replay.frames[:, 0].tolist()
    assert {ages.count(age) for age in range(EPISODE)} == {2 * ENVS, 3 * ENVS}  # early and late states alike
    assert not replay.truncated.any()
    assert {age for age, terminal in zip(ages, replay.terminals, strict=True) if terminal} == {EPISODE - 1}


def test_evaluations_do_not_touch_the_environments():
    learner = train(new_learner())
    assert envs_of(learner).seeds == [learner.context.derive_seed("games", 0)]


@pytest.mark.parametrize("interval", [40, 200])
def test_the_schedule_does_not_depend_on_the_evaluation_interval(interval):
    learner = train(new_learner(resetting(**{"evaluation.interval": interval})))
    assert envs_of(learner).seeds == [learner.context.derive_seed("games", steps) for steps in (0, 200, 400)]


def test_a_reset_cuts_the_episodes_in_the_replay():
    replay = train(new_learner(resetting(**{"training.replay-capacity": 1_000}))).experience.replay
    truncated = replay.frames[replay.truncated, 0].tolist()
    assert truncated == [3] * 2 * ENVS  # 45 steps, a reset, 4 steps: the newest was taken at age 3


def test_fraction_does_not_change_the_schedule():
    short = at_fraction(resetting(**{"evaluation.min-interval": 1}), 0.5)
    assert (short.short_term.agent_steps, short.evaluation.interval) == (TOTAL // 2, INTERVAL // 2)
    learner = train(new_learner(short))
    assert envs_of(learner).seeds == [learner.context.derive_seed("games", steps) for steps in (0, 200)]


@pytest.mark.parametrize("fraction", [1.0, 0.1, 0.01])
def test_every_atari_game_can_finish(fraction):
    longest = 108_000 // 4  # agent steps after which ale-py ends a game
    assert at_fraction(PAPER, fraction).training.reset_interval > longest


@pytest.fixture(scope="module")
def uninterrupted():
    """Reset interval -> what a run that was never interrupted ends with."""
    return {interval: everything(train(new_learner(resetting(interval)))) for interval in (50, 60)}


@pytest.mark.parametrize(
    ("interval", "at", "phase"),
    [
        (50, 116, "learn"),
        (50, 120, "learn"),  # an evaluation is due
        (50, 120, "evaluate Long game"),
        (50, 124, "learn"),  # between an evaluation and the next reset
        (50, 196, "learn"),
        (50, 200, "learn"),  # a reset is due
        (50, 204, "learn"),
        (60, 240, "learn"),  # both are due
        (60, 240, "evaluate Long game"),
        (60, 480, "evaluate Long game"),  # the last one
    ],
)
def test_a_killed_run_ends_with_the_same_bytes(uninterrupted, interval, at, phase):
    settings = resetting(interval)
    resumed = new_learner(settings, state=checkpoint(at, phase, settings))
    assert everything(train(resumed)) == uninterrupted[interval]


def test_a_checkpoint_at_a_reset_boundary_needs_no_action_log():
    learner = new_learner(resetting())
    learner.trainer.train_to(200)
    assert learner.trainer.state()["actor"]["seed"] is None
    learner.trainer.train_to(204)
    assert learner.trainer.state()["actor"]["action_log"].shape == (1, ENVS)


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_checkpoint_of_0_2_resumes_with_the_new_schedule(evaluated):
    """There, environments had just been left at an evaluation, which was done (`boundary`) or not."""
    settings = resetting()
    old = new_learner(settings)
    old.trainer.train_to(120)
    old.experience.actor.leave()
    state = {**old.trainer.state(), "boundary": 120 if evaluated else 0}
    del state["evaluated_at"]
    resumed = new_learner(settings)
    resumed.trainer.restore(clone_state(state))
    train(resumed)
    assert envs_of(resumed).seeds == [resumed.context.derive_seed("games", steps) for steps in (120, 200, 400)]
    evaluated_at = [row["agent_steps"] for row in resumed.trainer.evaluator.rows]
    assert evaluated_at == ([240, 360, 480] if evaluated else [120, 240, 360, 480])


def test_replaying_shows_its_progress():
    events = []
    train(new_learner(state=checkpoint(160), send=events.append))
    replayed = [e for e in events if isinstance(e, PhaseProgress) and e.phase == "replay actions"]
    assert [(e.done, e.total, e.unit) for e in replayed] == [(n, 160, "agent steps") for n in range(0, 161, ENVS)]


def test_a_stop_does_not_wait_for_replaying():
    events = []
    stopping = Checkpointer(stop=lambda: len(events) >= 10)
    stopping.save = lambda: pytest.fail("what is only half restored must not be saved")
    with pytest.raises(Stopped):
        train(new_learner(checkpointer=stopping, state=checkpoint(160), send=events.append))
    assert (events[-1].phase, events[-1].done) == ("replay actions", 9 * ENVS)


def test_a_collection_resets_once():
    """It is no longer than the replay, which bounds its action log."""
    context = Context(resetting(5), 3, 0, ("collect",))
    collection = ReplayCollection(context, context.q_network(), LONG_GAME)
    replay = collection.run()
    assert len(envs_of(collection).seeds) == 1
    assert not replay.truncated.any()
    assert replay.frames[:, 0].max() == EPISODE - 1


# -- the best weights of a game whose episodes are longer than a window


@pytest.mark.parametrize(
    ("episodes", "windows", "chosen_at"),
    [
        (ENVS, 2, 240),  # all four finish after 180 and after 364 agent steps, with equal scores: the first window wins
        (ENVS + 1, 1, 400),  # one after the other is not enough
        (2 * ENVS + 1, 0, TOTAL),  # so many never finish: the last weights
    ],
)
def test_a_window_grows_until_enough_episodes_finished(monkeypatch, episodes, windows, chosen_at):
    learner = new_learner(with_overrides(SETTINGS, {"training.best-episodes": episodes}))  # windows of 80 agent steps
    weights, end_window = {}, learner.best.end_window

    def remember_weights():
        weights[learner.trainer.agent_steps] = learner.trainer.weights.values.clone()
        end_window()

    monkeypatch.setattr(learner.best, "end_window", remember_weights)
    trained = learner.learn()
    first = (1, float(EPISODE)) if windows else (None, None)
    assert (trained.best["windows"], trained.best["chosen"], trained.best["value"]) == (windows, *first)
    assert list(weights) == [80, 160, 240, 320, 400, 480]
    assert learner.trainer.weights.values.equal(weights[chosen_at])

"""`reaper bench`: every part is measured, shares compare equal work, and the prediction adds up."""

import json
import time

import numpy as np
import pytest
import torch
from conftest import TINY

from reaper.bench.bare_emulation import IN_TURN, WARM_UP, Yardstick, rates_by_threads
from reaper.bench.benchmark import Bench
from reaper.bench.prediction import (
    BESIDE,
    GAN_BESIDE,
    TEST_BESIDE,
    TEST_BESIDE_GAN,
    Figure,
    Predicting,
    lost_beside,
    lost_beside_and_after,
)
from reaper.cli.main import main
from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.generators import generator_for
from reaper.learning.evaluation.episodes import measure_pace
from reaper.learning.evaluation.evaluator import MOST_HELD
from reaper.tasks.arcade import Catch
from reaper.tasks.atari import automatic_threads
from reaper.tasks.sequence import find_sequence, find_task


@pytest.fixture(scope="module")
def bench():
    sequence, said = find_sequence("arcade-3"), []
    settings = with_overrides(ARCADE, TINY)
    made = Bench(sequence.tasks, 6, settings, torch.device("cpu"), 0.02, 2, said.append, concurrent_eval=True)
    made.run()
    return made


def test_every_part_is_measured_for_every_task(bench):
    tasks = {"catch", "dodge", "shooter"}
    for what in ("bare emulation", "short-term training", "long-term training", "evaluation"):
        assert {f.task for f in bench.figures if f.what == what} == tasks
    assert {"GAN", "generation", "checkpoint"} <= {f.what for f in bench.figures}
    assert all(rate > 0 for figure in bench.figures for rate in figure.rates)
    trained = [figure for figure in bench.figures if figure.what.endswith("training")]
    assert all(len(figure.shares) == 2 and 0 < share < 1.5 for figure in trained for share in figure.shares)


def test_the_prediction_adds_up(bench):
    hours = bench.predicted(["catch", "dodge"])
    parts = [value for what, value in hours.items() if what not in ("all", "bare emulation of as many frames")]
    assert hours["all"] == pytest.approx(sum(parts))
    frames, rates = (
        TINY["short-term.agent-steps"],
        [f.rate for f in bench.figures if f.what == "short-term training" and f.task in ("catch", "dodge")],
    )
    assert hours["short-term training"] == pytest.approx(sum(frames / rate for rate in rates) / 3600)
    one = bench.predicted(["catch"])  # one task has nothing to consolidate into an earlier one
    assert one["long-term training"] == one["generation"] == 0


def test_tests_beside_training_are_measured_against_training_alone(bench):
    beside, test = (next(f for f in bench.figures if f.what == what) for what in (BESIDE, TEST_BESIDE))
    assert beside.of == "training alone"
    assert len(beside.shares) == len(beside.rates) == len(test.rates) == 2
    assert all(share > 0 for share in beside.shares)
    assert bench.set_up[TEST_BESIDE] > 0
    gan, test = (next(f for f in bench.figures if f.what == what) for what in (GAN_BESIDE, TEST_BESIDE_GAN))
    assert (gan.of, gan.unit, len(gan.shares)) == ("GAN alone", "steps", 2)
    assert bench.set_up[TEST_BESIDE_GAN] > 0
    assert len(test.rates) == 2


def test_opening_games_is_not_taken_for_slow_play(bench, monkeypatch):
    opened = Context.open

    def open_slowly(self, task, games):
        time.sleep(0.5)
        return opened(self, task, games)

    monkeypatch.setattr(Context, "open", open_slowly)
    pace = measure_pace(bench.context, bench.context.q_network(), find_task("catch"), 0.0)
    assert pace.beginning > 0.5
    assert (pace.steps, pace.whole) == (1, False)
    assert pace.seconds < 0.5


def made_of(*figures, **set_up):
    """A prediction from made-up measurements: 240 frames of a task take 24 s, with a seam after half of them."""
    rates = [Figure("short-term training", "", "frames", (10.0,)), *figures]
    return Predicting(with_overrides(ARCADE, TINY), rates, set_up, ["catch", "dodge"])


def test_tests_beside_training_cost_what_they_slow_it_down():
    at_once = made_of(**{"evaluation catch": 3.0})
    assert at_once.tests("short-term training", 240, ["catch"], "catch") == 2 * 3.0
    shares = Figure(BESIDE, "catch", "frames", (7.5,), (0.75,), "training alone")
    beside = made_of(shares, **{TEST_BESIDE: 4.0})
    assert beside.tests("short-term training", 240, ["catch"], "catch") == 2 * 0.25 * 4.0
    assert beside.tests("short-term training", 240, ["catch"] * 5, "catch") == 2 * (20.0 - 12.0)  # a seam is 12 s
    assert lost_beside(12.0, 16.0, 0.75) == 4.0  # both are over at once


def test_tests_that_are_put_off_cost_what_does_not_fit_into_the_quiet_time():
    assert lost_beside_and_after(12.0, 0.0, 0.75, 0.5, 10.0, 15.0) == 0.0
    assert lost_beside_and_after(12.0, 0.0, 0.75, 0.5, 20.0, 15.0) == 5.0
    assert lost_beside_and_after(12.0, 8.0, 0.75, 0.5, 10.0, 15.0) == 2.0  # those beside training slow it down
    assert lost_beside_and_after(12.0, 40.0, 0.75, 0.5, 10.0, 15.0) == 4.0 + 12.0 + 10.0 - 15.0  # 24 s are left of them
    shares = Figure(BESIDE, "catch", "frames", (7.5,), (0.75,), "training alone")
    rates = [Figure(what, "", unit, (10.0,)) for what, unit in (("long-term training", "frames"), ("GAN", "steps"))]
    predicting = made_of(shares, *rates, **{TEST_BESIDE: 4.0, TEST_BESIDE_GAN: 2.0})
    quiet = generator_for(predicting.settings).steps / 10.0
    for known in (["catch"], ["catch"] * (MOST_HELD // 2)):
        lost = predicting.tests("long-term training", 240, known, "catch")
        assert lost == pytest.approx(max(0.0, 2 * len(known) * 2.0 - quiet))  # both seams are put off
    known = ["catch"] * MOST_HELD
    beside = lost_beside_and_after(12.0, MOST_HELD * 4.0, 0.75, 0.5, MOST_HELD * 2.0, quiet)
    assert predicting.tests("long-term training", 240, known, "catch") == pytest.approx(beside)  # one of two is


def test_bare_emulation_plays_what_was_played(monkeypatch):
    """The same seed and actions, all of them."""
    games = Catch(4)
    seen = []
    monkeypatch.setattr(games, "send", lambda actions, send=games.send: (seen.append(actions.tolist()), send(actions)))
    log = [torch.randint(6, (4,)).numpy() for _ in range(WARM_UP + 5)]
    yardstick = Yardstick(games)
    for seed in (3, 4):  # spell by spell; more than once
        seen.clear()
        yardstick.begin(seed)
        for end in (3, WARM_UP + 2, WARM_UP + 5):
            yardstick.follow(log[:end])
            assert (yardstick.seconds > 0) == (end > WARM_UP)
        assert seen == [actions.tolist() for actions in log]
        assert yardstick.rate == pytest.approx(5 * 4 / yardstick.seconds)


def test_medians():
    figure = Figure("training", "catch", "frames", (1.0, 9.0, 2.0), (0.1, 0.9, 0.2))
    assert (figure.rate, figure.share) == (2.0, 0.2)


def test_the_command_writes_a_table_and_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("reaper.study.plan.PRESETS", {"arcade": with_overrides(ARCADE, TINY)})
    words = ["bench", "--tasks", "catch,dodge", "--seconds", "0.02", "--repeats", "1", "--device", "cpu"]
    assert main([*words, "--json", str(tmp_path / "b.json")]) == 0
    written = json.loads((tmp_path / "b.json").read_text())
    assert written["hours"]["catch,dodge"]["all"] > 0
    assert "of bare emulation" in capsys.readouterr().out
    assert main([*words, "--repeats", "0"]) == 2


def test_emulator_threads(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    for gpu, threads in ((False, 4), (True, 8)):
        monkeypatch.setattr("torch.cuda.is_available", lambda gpu=gpu: gpu)
        assert automatic_threads() == threads


def test_bare_emulation_is_timed_by_number_of_threads(monkeypatch):
    seen, played = [], []

    def opened(threads):
        games = Catch(2)
        seen.append(threads)
        monkeypatch.setattr(games, "send", lambda actions, send=games.send: (played.append(threads), send(actions)))
        return games

    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    rates = rates_by_threads(opened, [np.zeros(2, np.int16)] * (WARM_UP + IN_TURN + 3))
    assert list(rates) == seen == [2, 3, 4, 8]
    assert played == [n for steps in (WARM_UP + IN_TURN, 3) for n in seen for _ in range(steps)]  # in turn
    assert all(rate > 0 for rate in rates.values())

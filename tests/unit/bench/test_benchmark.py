"""`reaper bench`: every part is measured, shares compare equal work, and the parts of a prediction add up."""

import json
import time

import numpy as np
import pytest
import torch
from conftest import TINY

from reaper.bench.bare_emulation import STEPS_PER_TURN, WARM_UP, BareEmulation, rates_by_threads
from reaper.bench.benchmark import Benchmark
from reaper.bench.measurement import (
    CHECKPOINT,
    EVALUATION_WITH_TRAINING,
    EVALUATIONS_WITH_GENERATOR,
    GENERATION,
    GENERATOR,
    GENERATOR_WITH_EVALUATIONS,
    LONG_TERM,
    SHORT_TERM,
    TRAINING_WITH_EVALUATION,
    Measurement,
)
from reaper.bench.prediction import SAME_STEPS_BARE, TOTAL, Prediction, added_by_concurrent, added_by_deferred
from reaper.cli.main import main
from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE
from reaper.context import Context
from reaper.generators import generator_for
from reaper.learning.evaluation.concurrent import MAX_DEFERRED
from reaper.learning.evaluation.episodes import measure_pace
from reaper.tasks.arcade import Catch
from reaper.tasks.atari import automatic_threads
from reaper.tasks.sequence import find_sequence, find_task


@pytest.fixture(scope="module")
def benchmark():
    sequence, reported = find_sequence("catch,dodge"), []
    settings = with_overrides(ARCADE, TINY)
    made = Benchmark(
        sequence.tasks,
        6,
        settings,
        torch.device("cpu"),
        seconds=0.02,
        repeats=2,
        report=reported.append,
        concurrent_eval=True,
    )
    made.run()
    return made


def test_every_part_is_measured_for_every_task(benchmark):
    tasks = {"catch", "dodge"}
    for what in ("bare emulation", "short-term training", "long-term training", "evaluation"):
        assert {m.task for m in benchmark.measurements if m.what == what} == tasks
    assert {GENERATOR, GENERATION, CHECKPOINT} <= {m.what for m in benchmark.measurements}
    assert all(rate > 0 for measured in benchmark.measurements for rate in measured.rates)
    trained = [m for m in benchmark.measurements if m.what in (SHORT_TERM, LONG_TERM)]
    assert len(trained) == 2 * len(tasks)
    assert all(len(m.shares) == 2 and 0 < share < 1.5 for m in trained for share in m.shares)


def test_the_parts_of_a_prediction_add_up(benchmark):
    hours = benchmark.predicted_hours(["catch", "dodge"])
    parts = [value for what, value in hours.items() if what not in (TOTAL, SAME_STEPS_BARE)]
    assert hours[TOTAL] == pytest.approx(sum(parts))
    steps = TINY["short-term.agent-steps"]
    rates = [m.rate for m in benchmark.measurements if m.what == SHORT_TERM and m.task in ("catch", "dodge")]
    assert hours[SHORT_TERM] == pytest.approx(sum(steps / rate for rate in rates) / 3600)
    one = benchmark.predicted_hours(["catch"])  # with one task there is no earlier one to retain
    assert one[LONG_TERM] == one[GENERATION] == 0


def test_concurrent_evaluations_are_compared_with_work_alone(benchmark):
    measured = {m.what: m for m in benchmark.measurements}
    training, evaluation = measured[TRAINING_WITH_EVALUATION], measured[EVALUATION_WITH_TRAINING]
    assert training.of == "training alone"
    assert len(training.shares) == len(training.rates) == len(evaluation.rates) == 2
    assert all(share > 0 for share in training.shares)
    assert benchmark.set_up[EVALUATION_WITH_TRAINING] > 0
    generator, evaluations = measured[GENERATOR_WITH_EVALUATIONS], measured[EVALUATIONS_WITH_GENERATOR]
    assert (generator.of, generator.unit, len(generator.shares)) == ("generator training alone", "steps", 2)
    assert benchmark.set_up[EVALUATIONS_WITH_GENERATOR] > 0
    assert len(evaluations.rates) == 2


def test_opening_environments_does_not_count_as_slow_evaluation(benchmark, monkeypatch):
    open_envs = Context.open

    def open_slowly(self, task, num_envs):
        time.sleep(0.5)
        return open_envs(self, task, num_envs)

    monkeypatch.setattr(Context, "open", open_slowly)
    pace = measure_pace(benchmark.context, benchmark.context.q_network(), find_task("catch"), 0.0)
    assert pace.startup > 0.5
    assert (pace.steps, pace.whole) == (1, False)
    assert pace.seconds < 0.5


TRAINING_SLOWED = Measurement(TRAINING_WITH_EVALUATION, "catch", "agent steps", (7.5,), (0.75,), "training alone")


def predict(*measurements, **set_up):
    """A prediction from made-up measurements: 240 agent steps take 24 s, with evaluations after 120 and after 240."""
    measured = [Measurement(SHORT_TERM, "", "agent steps", (10.0,)), *measurements]
    return Prediction(with_overrides(ARCADE, TINY), measured, set_up, ["catch", "dodge"])


def test_evaluations_that_training_waits_for_add_their_seconds():
    prediction = predict(**{"evaluation catch": 3.0})
    assert prediction.evaluation_seconds(SHORT_TERM, 240, ["catch"], "catch") == 2 * 3.0


def test_concurrent_evaluations_add_what_they_slow_training_down():
    prediction = predict(TRAINING_SLOWED, **{EVALUATION_WITH_TRAINING: 4.0})
    assert prediction.evaluation_seconds(SHORT_TERM, 240, ["catch"], "catch") == 2 * 0.25 * 4.0
    # 12 s of training between evaluations of 20 s
    assert prediction.evaluation_seconds(SHORT_TERM, 240, ["catch"] * 5, "catch") == 2 * (20.0 - 12.0)
    assert added_by_concurrent(12.0, 16.0, 0.75) == 4.0  # both end at once


def test_deferred_evaluations_add_what_exceeds_generator_training():
    common = {"training": 12.0, "share": 0.75, "speed_up": 0.5, "generator": 15.0}
    assert added_by_deferred(concurrent=0.0, deferred=10.0, **common) == 0.0
    assert added_by_deferred(concurrent=0.0, deferred=20.0, **common) == 5.0
    assert added_by_deferred(concurrent=8.0, deferred=10.0, **common) == 2.0  # concurrent ones slow training down
    # 24 of 40 s of concurrent evaluations are left when training ends
    assert added_by_deferred(concurrent=40.0, deferred=10.0, **common) == 4.0 + 12.0 + 10.0 - 15.0


def test_a_limited_number_of_evaluations_is_deferred():
    speeds = [Measurement(what, "", unit, (10.0,)) for what, unit in ((LONG_TERM, "agent steps"), (GENERATOR, "steps"))]
    prediction = predict(TRAINING_SLOWED, *speeds, **{EVALUATION_WITH_TRAINING: 4.0, EVALUATIONS_WITH_GENERATOR: 2.0})
    generator = generator_for(prediction.settings).steps / 10.0
    for tasks in (["catch"], ["catch"] * (MAX_DEFERRED // 2)):
        added = prediction.evaluation_seconds(LONG_TERM, 240, tasks, "catch")
        assert added == pytest.approx(max(0.0, 2 * len(tasks) * 2.0 - generator))  # both are deferred
    added = prediction.evaluation_seconds(LONG_TERM, 240, ["catch"] * MAX_DEFERRED, "catch")
    one_deferred = added_by_deferred(
        training=12.0,
        concurrent=MAX_DEFERRED * 4.0,
        share=0.75,
        speed_up=0.5,
        deferred=MAX_DEFERRED * 2.0,
        generator=generator,
    )
    assert added == pytest.approx(one_deferred)


def test_bare_emulation_replays_all_actions(monkeypatch):
    envs, sent = Catch(4), []
    monkeypatch.setattr(envs, "send", lambda actions, send=envs.send: (sent.append(actions.tolist()), send(actions)))
    log = [torch.randint(6, (4,)).numpy() for _ in range(WARM_UP + 5)]
    emulation = BareEmulation(envs)
    for seed in (3, 4):  # it can be reset
        sent.clear()
        emulation.reset(seed)
        for end in (3, WARM_UP + 2, WARM_UP + 5):  # burst by burst
            emulation.replay(log[:end])
            assert (emulation.seconds > 0) == (end > WARM_UP)
        assert sent == [actions.tolist() for actions in log]
        assert emulation.rate == pytest.approx(5 * 4 / emulation.seconds)


def test_a_measurement_is_a_median():
    measured = Measurement("training", "catch", "agent steps", (1.0, 9.0, 2.0), (0.1, 0.9, 0.2))
    assert (measured.rate, measured.share) == (2.0, 0.2)
    assert {"what", "task", "unit", "rate", "share"} <= measured.to_json().keys()


def test_the_command_writes_a_table_and_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("reaper.study.plan.PRESETS", {"arcade": with_overrides(ARCADE, TINY)})
    command = ["bench", "--tasks", "catch,dodge", "--seconds", "0.02", "--repeats", "1", "--device", "cpu"]
    assert main([*command, "--json", str(tmp_path / "b.json")]) == 0
    written = json.loads((tmp_path / "b.json").read_text())
    assert written["hours"]["catch,dodge"][TOTAL] > 0
    assert "share of bare emulation" in capsys.readouterr().out
    assert main([*command, "--repeats", "0"]) == 2


def test_emulator_threads(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    for gpu, threads in ((False, 4), (True, 8)):
        monkeypatch.setattr("torch.cuda.is_available", lambda gpu=gpu: gpu)
        assert automatic_threads() == threads


def test_bare_emulation_is_timed_by_number_of_threads(monkeypatch):
    opened, stepped = [], []

    def open_envs(threads):
        envs = Catch(2)
        opened.append(threads)
        monkeypatch.setattr(envs, "send", lambda actions, send=envs.send: (stepped.append(threads), send(actions)))
        return envs

    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    rates = rates_by_threads(open_envs, [np.zeros(2, np.int16)] * (WARM_UP + STEPS_PER_TURN + 3))
    assert list(rates) == opened == [2, 3, 4, 8]
    assert stepped == [n for steps in (WARM_UP + STEPS_PER_TURN, 3) for n in opened for _ in range(steps)]  # in turn
    assert all(rate > 0 for rate in rates.values())

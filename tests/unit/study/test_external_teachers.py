"""Consolidating agents trained elsewhere: which stages a study has, what they learn, and what a report says."""

import numpy as np
import pytest
import torch
from conftest import TINY, plan_tiny, run_plan
from unit.teachers.zips import write_sb3

import reaper
from reaper.cli.main import main
from reaper.errors import UserError
from reaper.results.runs import read_results
from reaper.results.tidy import all_rows
from reaper.storage.store import Store


def study(teachers, conditions=("RePR",), tasks="catch,dodge", **options):
    return plan_tiny(list(conditions), tasks, teachers=teachers, **options)


def prefer(action, num_actions=6):
    """A teacher that always prefers one action."""

    def teacher(states):
        return np.eye(num_actions)[np.full(len(states), action)]

    return teacher


@pytest.fixture(scope="module")
def consolidated(tmp_path_factory):
    """RePR and no-reh on two tasks: the first taught from elsewhere, the second learnt here."""
    folder = tmp_path_factory.mktemp("consolidated")
    source = write_sb3(folder / "agent.zip")
    return run_plan(study({"catch": source}, ["RePR", "no-reh"]), folder / "run"), source


def test_stages_are_named_by_the_weights_and_not_by_their_file(tmp_path):
    one, same, other = (write_sb3(tmp_path / f"{name}.zip", seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    digests = [[stage.digest for stage in study({"catch": source}).stages] for source in (one, same, other)]
    assert digests[0] == digests[1]
    taught = [stage.kind for stage in study({"catch": one}).stages]
    assert taught.count("teacher weights") == taught.count("external teacher") == 1
    assert taught.count("short-term") == 1  # dodge is learnt here
    kinds = {stage.digest: stage.title for stage in study({"catch": one}).stages}
    shared = {kinds[digest] for digest in set(digests[0]) & set(digests[2])}
    assert shared == {"learn dodge (seed 0)", "evaluate single dodge (seed 0)", "evaluate random actions (seed 0)"}


def test_a_study_without_teachers_from_elsewhere_is_unchanged():
    plain, with_option = plan_tiny(["RePR"]), plan_tiny(["RePR"], teachers={})
    assert [stage.digest for stage in plain.stages] == [stage.digest for stage in with_option.stages]
    assert "sources" not in plain.chains[0].record().to_json()


def test_the_first_long_term_agent_learns_from_its_teacher(consolidated):
    store, source = consolidated
    record = next(run for run in store.runs() if run.condition_name == "RePR")
    assert record.sources["catch"].source == source
    first, teacher = store.stage(record.memories[0]), store.stage(record.teachers[0])
    assert first.document("best_weights")["by"] == "loss"  # it was trained
    assert {row["task"] for row in first.document("rows")} == {"catch"}
    assert teacher.has("states.safetensors")
    weights = store.stage(record.sources["catch"].stage)
    assert all(torch.equal(t, weights.tensors("agent")[name]) for name, t in teacher.tensors("agent").items())


def test_its_score_is_its_own_and_the_teachers_is_single(consolidated):
    store, _ = consolidated
    for result in read_results(store):
        assert result.finished
        rows = store.stage(result.record.singles[0]).document("rows")
        assert result.single[0].tolist() == rows[0]["scores"]
        own = store.stage(result.record.evaluations[0]).document("rows")
        assert result.scores[0, 0].tolist() == next(row["scores"] for row in own if row["task"] == "catch")
        assert result.phases[0].agent_steps == TINY["long-term.agent-steps"]
    rows = [row for row in all_rows(read_results(store), 1.0) if row["condition"] == "single"]
    assert {row["task"]: row["agent_steps"] for row in rows} == {"catch": 0, "dodge": TINY["short-term.agent-steps"]}


def test_the_report_names_the_teachers(consolidated, capsys):
    store, _source = consolidated
    assert main(["report", str(store.folder), "--no-videos"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Taught from elsewhere: Catch by" in printed
    page = (store.folder / "report" / "index.html").read_text()
    assert "could not be played" not in page


@pytest.mark.parametrize("condition", ["DGDMN", "reh", "ewc", "online-ewc", "reh-limit", "reh-limit-comp"])
def test_every_condition_that_distils_learns_from_them(condition, tmp_path):
    teachers = {"catch": write_sb3(tmp_path / "a.zip"), "dodge": write_sb3(tmp_path / "b.zip", seed=1)}
    store = run_plan(study(teachers, [condition]), tmp_path / "run")
    (result,) = read_results(store)
    assert result.finished
    assert not np.isnan(result.scores).any()


def test_q_learning_without_a_second_memory_takes_no_teachers(tmp_path):
    with pytest.raises(UserError, match="PR learns its tasks itself"):
        study({"catch": write_sb3(tmp_path / "a.zip")}, ["PR"])


def test_policies_are_transferred_where_a_teacher_knows_no_values(tmp_path):
    teachers = {"catch": write_sb3(tmp_path / "a.zip", "ppo"), "dodge": write_sb3(tmp_path / "b.zip")}
    planned = study(teachers)
    (chain,) = planned.chains
    assert (chain.condition.name, chain.condition.knowledge) == ("RePR-policy", "policy")
    (notice,) = [notice for notice in planned.notices if "policies are transferred" in notice]
    assert notice.startswith("the teachers of catch give action probabilities")
    assert "of the teachers of dodge only the best action" in notice
    (result,) = read_results(run_plan(planned, tmp_path / "run"))
    assert result.finished
    assert reaper.load(tmp_path / "run", condition="RePR").tasks == ("catch", "dodge")  # what the user asked for
    with pytest.raises(UserError, match="holds no run with condition reh; it has RePR-policy"):
        reaper.load(tmp_path / "run", condition="reh")


def test_policies_can_be_asked_for(tmp_path):
    teachers = {"catch": write_sb3(tmp_path / "a.zip")}
    planned = study(teachers, ["RePR-policy", "RePR"], tasks="catch")
    assert [chain.condition.knowledge for chain in planned.chains] == ["policy", "Q-values"]
    assert [chain.condition.name for chain in planned.chains] == ["RePR-policy", "RePR"]
    assert planned.notices == []
    for name in ("PR-policy", "single-policy", "RePR-extend-policy-policy"):
        with pytest.raises(UserError, match="unknown condition"):
            plan_tiny([name])


def test_functions_are_teachers_by_name_and_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_teacher.py").write_text(
        "import numpy as np\n\n\ndef up(states):\n    return np.eye(6)[[2] * len(states)]\n"
    )
    options = {"out": tmp_path / "run", "device": "cpu", "workers": 1, "overrides": TINY, "quiet": True}
    teachers = {"catch": "my_teacher:up", "dodge": prefer(1)}
    (result,) = reaper.consolidate(teachers, conditions="no-reh", **options)
    assert result.tasks == ["catch", "dodge"]
    assert result.finished
    values = Store.open(tmp_path / "run").stage(result.record.teachers[0]).document("values")
    assert values["mean"] == pytest.approx(1 / 6)
    with pytest.raises(UserError, match="no importable name"):
        reaper.consolidate({"catch": prefer(1)}, **{**options, "workers": 2})
    with pytest.raises(UserError, match="--device cpu"):
        reaper.consolidate({"catch": "my_teacher:up"}, **{**options, "device": "cuda"})


def test_teachers_can_teach_a_memory_further_tasks(consolidated, tmp_path):
    store, _ = consolidated
    teachers = {"frog": write_sb3(tmp_path / "a.zip", seed=2)}
    (result,) = read_results(
        run_plan(study(teachers, tasks="frog", continue_from=store.folder, from_condition="RePR"), tmp_path / "run")
    )
    assert result.tasks == ["catch", "dodge", "frog"]
    assert result.finished
    assert not np.isnan(result.scores[-1]).any()


def test_the_command_runs_and_can_be_repeated_without_the_file(tmp_path, capsys):
    source = write_sb3(tmp_path / "agent.zip")
    settings = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    command = ["consolidate", "no-reh", "--teacher", f"catch={source}", "--out", str(tmp_path / "run"), "--quiet"]
    command += ["--workers", "1", "--device", "cpu", *settings]
    assert main(command) == 0
    (record,) = Store.open(tmp_path / "run").runs()
    assert record.command.startswith("reaper consolidate no-reh --tasks catch")
    assert f"--teacher catch={source}" in record.command
    (tmp_path / "agent.zip").unlink()
    capsys.readouterr()
    assert main(command) == 0
    assert main([*command[:3], f"catch={source}x", *command[4:]]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--teacher", "catch"], "--teacher takes TASK=SOURCE"),
        (["--teacher", "=sb3:a.zip"], "--teacher takes TASK=SOURCE"),
        (["--teacher", "catch=sb3:missing.zip"], "missing.zip is no file"),
        (["--teacher", "catch=missing"], "no source of a teacher"),
        (["--teacher", "ctch=sb3:missing.zip"], "did you mean"),
        (["--teacher", "catch=pretrained:arcade-3", "--teacher", "catch=pretrained:arcade-3"], "two teachers"),
        (["--teacher", "frog=pretrained:arcade-3", "--tasks", "catch"], "unknown task 'frog'"),
        (["--teacher", "catch=json:dumps"], "json:dumps failed"),
    ],
)
def test_a_wrong_teacher_is_one_line_and_nothing_is_written(words, message, tmp_path, capsys):
    assert main(["consolidate", *words, "--out", str(tmp_path / "run")]) == 2
    errors = capsys.readouterr().err.strip()
    assert message in errors
    assert "\n" not in errors
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("answer", [np.full((64, 6), np.nan), np.zeros((64, 5)), np.zeros(64), "no"])
def test_a_callable_with_wrong_answers_writes_nothing(answer, tmp_path):
    with pytest.raises(UserError):
        reaper.consolidate({"catch": lambda states: answer}, out=tmp_path / "run", workers=1)
    assert not (tmp_path / "run").exists()


def test_a_report_imports_nothing_that_a_store_names(tmp_path, monkeypatch):
    """The states of a function's task are those that its stage stored."""
    from reaper.report import real_states

    store = run_plan(study({"catch": prefer(0)}, ["no-reh"], "catch"), tmp_path / "run")
    monkeypatch.setattr(real_states, "read_policy", None)
    (result,) = read_results(store)
    (states,), remarks = real_states.read_real_states(store, result)
    assert len(states.train) + len(states.held_out) <= 64
    assert remarks == []

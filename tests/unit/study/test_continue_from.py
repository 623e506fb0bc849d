"""Continuing from a long-term memory made elsewhere."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import plan_tiny, run_args, run_tiny

import reaper
from reaper.cli.main import main
from reaper.errors import UserError
from reaper.memory.long_term import LongTermMemory
from reaper.report.findings import caveats
from reaper.report.page import write_report
from reaper.report.scores import gather_scores
from reaper.results import metrics
from reaper.results.runs import read_results
from reaper.storage.find import RunChoice
from reaper.storage.pack import export_run, export_weights
from reaper.storage.store import Store
from reaper.storage.verify import verify
from reaper.study.continue_from import contents_of, open_initial_memory

FEW_EVALUATIONS = {"evaluation.interval": 10_000, "evaluation.episodes": 1}  # they take most of a small run's time


@pytest.fixture(scope="module")
def pack(tiny_run, tmp_path_factory):
    file = tmp_path_factory.mktemp("pack") / "RePR.reaper"
    export_weights(tiny_run, file, RunChoice("RePR"))
    return file


@pytest.fixture(scope="module")
def further(pack, tmp_path_factory):
    """RePR's memory of three tasks learns a fourth, with and without retention."""
    folder = tmp_path_factory.mktemp("further") / "run"
    run_tiny(folder, ["RePR", "no-reh"], "shooter", overrides=FEW_EVALUATIONS, continue_from=str(pack))
    return folder


def test_the_chain_starts_from_the_memory_and_its_tasks_come_first(tiny_run, further):
    run = next(run for run in Store.open(further).runs() if run.condition_name == "RePR")
    assert run.tasks == ("catch", "dodge", "frog", "shooter")
    store = Store.open(further)
    assert [store.has(digest) for digest in run.memories] == [False, False, True, True]
    before, after = reaper.load(tiny_run, condition="RePR"), reaper.load(further, condition="RePR", after_task=3)
    assert before.tasks == after.tasks
    assert all(torch.equal(after.memory.agent[name], value) for name, value in before.memory.agent.items())
    last = reaper.load(further, condition="RePR")
    assert last.tasks == ("catch", "dodge", "frog", "shooter")
    assert last.memory.part("generator")
    assert last.memory.bytes == before.memory.bytes


def test_only_the_new_task_is_learnt(further):
    kinds = [Store.open(further).stage(digest).manifest.kind for digest in Store.open(further).stages()]
    assert kinds.count("short-term") == 1
    assert kinds.count("inherited memory") == 1  # one for both conditions
    assert kinds.count("consolidate") == 2


def test_the_memory_is_named_by_its_contents(tiny_run, pack, tmp_path):
    moved = tmp_path / "elsewhere.reaper"
    moved.write_bytes(pack.read_bytes())
    halved = tmp_path / "half.reaper"
    export_weights(tiny_run, halved, RunChoice("RePR"), half=True)
    sources = (pack, moved, halved)
    digests = [
        plan_tiny(["RePR"], "shooter", continue_from=source).chains[0].initial_memory.stage.digest for source in sources
    ]
    folder = (
        plan_tiny(["RePR"], "shooter", continue_from=tiny_run, from_condition="RePR")
        .chains[0]
        .initial_memory.stage.digest
    )
    assert digests[0] == digests[1] == folder
    assert digests[2] != folder
    memory = LongTermMemory({"w": torch.zeros(2)}, ("catch",))
    assert contents_of(memory) != contents_of(LongTermMemory({"w": torch.zeros(2)}, ("dodge",)))
    assert contents_of(memory) != contents_of(LongTermMemory({"w": torch.zeros(1, 2)}, ("catch",)))


def test_further_tasks_are_taught_as_those_that_the_memory_knows(pack):
    config = plan_tiny(["RePR"], "shooter", continue_from=pack).config
    memory, settings = open_initial_memory(pack), config.settings
    assert memory.adapt(settings, config.sequence, {}) == settings
    assert memory.notices(settings) == []
    theirs = replace(memory.settings, long_term=replace(memory.settings.long_term, targets="advantages"))
    other = replace(memory, settings=theirs)
    assert other.adapt(settings, config.sequence, {}).long_term.targets == "advantages"
    assert "was taught advantages, and so are further tasks" in other.notices(settings)[0]


def test_a_dry_run_shows_the_memory_and_predicts_the_time(pack, tmp_path, capsys):
    words = [*run_args(tmp_path / "run", "RePR", tasks="shooter"), "--continue-from", str(pack)]
    assert main([*words, "--dry-run"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "long-term memory from" in shown
    assert "7 stages, 0 done, 7 to run: about" in shown


def test_the_report_leaves_out_what_is_not_known(further):
    store = Store.open(further)
    results = read_results(store)
    result = next(result for result in results if result.name == "RePR")
    assert result.finished
    assert result.learnt == 4
    assert np.isnan(result.scores[:2]).all()
    assert not np.isnan(result.scores[2:]).any()
    assert np.isnan(result.single[:3]).all()
    assert [phase.agent_steps for phase in result.phases] == [0, 0, 0, 160]
    scores = gather_scores(results)[0]
    assert scores.without_reference == ("catch", "dodge", "frog")
    assert any("reaper run single --tasks catch,dodge,frog" in text for text in caveats(scores, []))
    page = write_report(store).read_text()
    assert "Continued from" in page
    assert "all 9 finished" in page
    assert verify(further) == []


def test_single_task_scores_that_are_added_later_are_used(further, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(further, copy)
    run_tiny(copy, ["single"], "catch,dodge,frog", overrides=FEW_EVALUATIONS)
    result = next(result for result in read_results(Store.open(copy)) if result.name == "RePR")
    assert not np.isnan(result.single).any()


def test_metrics_begin_with_the_first_known_scores():
    unknown = [np.nan] * 3
    matrix = np.array([unknown, [1.0, 0.8, 0.1], [0.5, 0.6, 0.9]])
    assert metrics.forgetting(matrix, 1) == pytest.approx((0.5 + 0.2) / 2)
    assert metrics.backward_transfer(matrix, 1) == pytest.approx(-(0.5 + 0.2) / 2)
    assert metrics.forward_transfer(matrix, 1) == pytest.approx(0.1)
    assert metrics.retained(matrix, 1) == pytest.approx(1.1 / 1.8)


@pytest.mark.parametrize(
    ("condition", "tasks", "overrides", "message"),
    [
        ("reh", "shooter", {}, "no stored items"),
        ("reh-limit-comp", "shooter", {}, "no compressed items"),
        ("ewc", "shooter", {}, "no Fisher matrix of every task"),
        ("online-ewc", "shooter", {}, "no running Fisher matrix"),
        ("single", "shooter", {}, "has no long-term memory"),
        ("RePR-rev", "shooter", {}, "in reverse"),
        ("RePR-policy-short", "shooter", {}, "keeps Q-values"),
        ("RePR-extend", "shooter", {}, "network of width 1"),
        ("RePR", "catch,shooter", {}, "already knows the task catch"),
        ("RePR", "ALE/Pong-v5", {}, "observes stacks of 2 1x16x16 uint8 images"),
        ("RePR", "shooter", {"gan.latent_size": 32}, "of another network"),
        ("RePR", "shooter", {"long-term.targets": "policy"}, "was taught values: --long-term.targets policy"),
    ],
)
def test_what_cannot_be_continued_is_refused(pack, condition, tasks, overrides, message):
    with pytest.raises(UserError, match=message):
        plan_tiny([condition], tasks, overrides=overrides, continue_from=pack)


def test_fisher_matrices_of_different_outputs_are_not_mixed(tmp_path):
    """Version 0.2 measured those of policies at the linear outputs."""
    condition, of_linear = "ewc-policy-short", {**FEW_EVALUATIONS, "ewc.fisher-output": "linear"}
    run_tiny(tmp_path / "first", [condition], "catch", overrides=of_linear)
    with pytest.raises(UserError, match="of linear outputs, and it measures softmax outputs"):
        plan_tiny([condition], "dodge", continue_from=tmp_path / "first")
    plan_tiny([condition], "dodge", overrides=of_linear, continue_from=tmp_path / "first")


def test_every_condition_continues_from_its_own_memory(tmp_path):
    conditions = ["reh", "reh-limit-comp", "ewc", "online-ewc", "PR", "DGDMN"]
    run_tiny(tmp_path / "first", conditions, "catch", overrides=FEW_EVALUATIONS)
    for condition in conditions:
        origin = {"continue_from": tmp_path / "first", "from_condition": condition}
        run_tiny(tmp_path / "then", [condition], "dodge", overrides=FEW_EVALUATIONS, **origin)
        assert reaper.load(tmp_path / "then", condition=condition).tasks == ("catch", "dodge")


def test_a_source_without_a_memory_is_a_one_line_error(tiny_run, tmp_path, capsys):
    whole, broken, out = tmp_path / "run.reaper", tmp_path / "broken.reaper", tmp_path / "out"
    export_run(tiny_run, whole)
    broken.write_bytes(whole.read_bytes()[:1000])
    for source, message in (
        ("pretrained:arcade-4", "did you mean 'arcade-3'?"),
        (whole, "holds a whole run"),
        (broken, "is not a valid pack of reaper"),
        (tmp_path / "nothing", "is not a run of reaper"),
        (tiny_run, "holds several runs"),
    ):
        assert main([*run_args(out, "RePR", tasks="shooter"), "--continue-from", str(source)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert main([*run_args(out, "RePR", tasks="shooter"), "--from-seed", "0"]) == 2
    assert not out.exists()


def test_a_task_that_would_import_a_module_is_not_opened(monkeypatch, pack):
    from reaper.study import continue_from

    found = continue_from.find_memory(pack)
    forged = LongTermMemory(found.memory.agent, ("os:Anything-v0",), found.memory.retained)
    monkeypatch.setattr(continue_from, "find_memory", lambda *_: replace(found, memory=forged))
    with pytest.raises(UserError, match="would import a module"):
        open_initial_memory(pack)

"""Planned studies: every condition runs, shared stages run once, and finished ones are skipped."""

import numpy as np
import pytest
import torch
from conftest import plan_tiny, run_tiny

from reaper.results.runs import read_results, rows_after
from reaper.results.tidy import FINAL, tidy_rows
from reaper.storage.store import Store
from reaper.study.conditions import CONDITIONS, MAIN
from reaper.study.kinds.evaluate import EVALUATE


@pytest.fixture(scope="module")
def all_conditions(tmp_path_factory):
    """Every condition of the table on shrunk budgets, in one folder."""
    return run_tiny(tmp_path_factory.mktemp("all") / "run", list(CONDITIONS), tasks="catch,dodge")


def test_every_condition_runs_to_its_end(all_conditions):
    results = {result.name: result for result in read_results(all_conditions)}
    assert set(results) == set(CONDITIONS)
    for result in results.values():
        assert result.finished
        assert not np.isnan(result.single).any()
        if result.consolidates:
            assert result.learnt == 2
            assert result.scores.shape == (2, 2, 2)
            assert not np.isnan(result.scores).any()


def test_teachers_are_trained_once_for_all_conditions(all_conditions):
    kinds = [Store.stage(all_conditions, path.name).manifest.kind for path in all_conditions.folder.glob("stages/*")]
    # Two tasks; the extended conditions have larger networks and so teachers of their own.
    assert kinds.count("short-term") == 2 + 2


def test_only_ewc_grows(all_conditions):
    results = {result.condition["name"]: result for result in read_results(all_conditions)}
    # Its vocabulary fills up to a limit that is within the bytes of the GAN.
    assert max(results.pop("RePR-plus").memory_bytes) <= results["RePR"].memory_bytes[-1]
    for result in results.values():
        if result.consolidates and "rehearsal" not in result.condition["retention"]["name"].replace(
            "pseudo-rehearsal", ""
        ):
            grows = result.memory_bytes[1] > result.memory_bytes[0]
            assert grows == (result.condition["retention"]["name"] == "ewc"), result.name


def test_the_predicted_size_of_a_memory_is_what_a_run_writes(all_conditions):
    """The memory column is computed before a run."""
    from reaper.study.preflight import memory_bytes

    study = plan_tiny(list(MAIN), "catch,dodge")
    written = {result.name: result.memory_bytes[-1] for result in read_results(all_conditions) if result.consolidates}
    for chain in study.chains:
        expected = memory_bytes(chain, 2)
        if chain.condition.name == "reh-limit-comp":
            assert 0.5 * expected < written[chain.condition.name] <= expected
        else:
            assert written[chain.condition.name] == expected, chain.condition.name


def test_a_raw_store_states_its_compressed_size(all_conditions):
    for result in read_results(all_conditions):
        for raw, compressed in zip(result.memory_bytes, result.compressed_bytes, strict=True):
            if result.condition["retention"]["name"] in ("rehearsal", "limited-rehearsal"):
                assert 0 < compressed < raw, result.name
            else:
                assert compressed is None, result.name


def test_a_store_states_how_many_items_it_holds(all_conditions):
    stored = {result.name: result.stored_items for result in read_results(all_conditions)}
    assert stored["reh"] == [60, 60]  # TINY's capacity
    assert stored["reh-limit"] == [12, 12]
    assert all(count > 12 for count in stored["reh-limit-comp"])
    assert stored["RePR"] == [None, None]


def test_only_unfinished_learning_needs_memory(all_conditions, tmp_path):
    """Evaluating finished agents needs no replay buffer; a study that has not begun does."""
    from reaper.errors import UserError
    from reaper.study.preflight import check_space

    study = plan_tiny(["RePR"], "catch,dodge")
    check_space(study.chains, all_conditions.folder, workers=1, free_memory=1)
    with pytest.raises(UserError, match="of memory and"):
        check_space(study.chains, tmp_path, workers=1, free_memory=1)


def test_only_conditions_with_a_generator_need_memory_for_pseudo_items():
    from reaper.study.preflight import working_bytes

    def needed(condition, items):
        (chain,) = plan_tiny([condition], "catch,dodge", overrides={"generator.pseudo-items": items}).chains
        return working_bytes(chain)

    for condition in ("no-reh", "ewc", "reh-limit"):
        assert needed(condition, 1_000_000) == needed(condition, 1)
    for condition in ("RePR", "DGDMN"):
        item = 2 * 16 * 16 + 4 * 6  # two frames, and an output for each of six actions
        assert needed(condition, 1_001) - needed(condition, 1) == 2 * 1_000 * item


def test_the_first_long_term_agent_is_the_first_teacher(all_conditions):
    for result in read_results(all_conditions):
        if result.name in ("RePR", "PR", "DGDMN", "ewc-policy-short"):
            teacher = all_conditions.stage(result.record.teachers[0]).tensors("agent")
            agent = all_conditions.stage(result.record.memories[0]).tensors("agent")
            assert all(torch.equal(teacher[name], agent[name]) for name in teacher)


def test_the_first_agent_has_one_score_in_all_conditions(all_conditions):
    """Its weights are the first teacher's, so it is evaluated once, and never again on the teacher's own task."""
    results = [result for result in read_results(all_conditions) if result.consolidates]
    teachers = {result.record.teachers[0] for result in results}
    assert len(teachers) == 3  # of the extended conditions, of the reversed sequence, and of all others
    for teacher in teachers:
        first, *others = [result for result in results if result.record.teachers[0] == teacher]
        evaluation = all_conditions.stage(first.record.evaluations[0])
        assert evaluation.manifest.parents == {"subject": teacher}
        assert [row["task"] for row in evaluation.document("rows")] == first.tasks[1:]
        assert np.array_equal(first.scores[0, 0], first.single[0])
        for other in others:
            assert other.record.evaluations[0] == first.record.evaluations[0]
            assert np.array_equal(other.scores[0], first.scores[0])


def test_an_evaluation_of_the_first_agent_by_an_earlier_version_gives_way_to_that_of_its_teacher():
    """Up to version 0.2 each condition evaluated the first agent on all tasks, perhaps on another machine."""
    (chain,) = plan_tiny(["RePR"], "catch,dodge").chains
    inputs, names = chain.inputs, chain.sequence.names
    chain.evaluations[0] = EVALUATE.stage(inputs, "RePR: evaluate after catch", names, chain.memories[0])
    rows = {chain.singles[0].digest: ["catch"], chain.evaluations[0].digest: ["catch", "dodge"]}
    scores = {chain.singles[0].digest: 1.0, chain.evaluations[0].digest: 0.96}

    def rows_of(digest):
        return [{"task": task, "agent_steps": 0, "scores": [scores[digest]] * 2} for task in rows[digest]]

    found = rows_after(chain.record(), 0, rows_of)
    assert [(row["task"], row["scores"]) for row in found] == [("catch", [1.0, 1.0]), ("dodge", [0.96, 0.96])]


def test_dgdmn_keeps_its_first_short_term_generator(all_conditions):
    (run,) = [run for run in all_conditions.runs() if run.condition_name == "DGDMN"]
    short_term = all_conditions.stage(run.generators[0]).tensors("generator")
    retained = all_conditions.stage(run.memories[0]).tensors("retained")
    assert all(torch.equal(short_term[name], retained[f"generator.{name}"]) for name in short_term)


def test_standardised_first_agent_has_standardised_values(all_conditions):
    (run,) = [run for run in all_conditions.runs() if run.condition_name == "RePR-extend"]
    teacher, agent = (all_conditions.stage(run.of_role(kind)[0]) for kind in ("teachers", "memories"))
    values = teacher.document("values")
    bias, rescaled = teacher.tensors("agent")["values.bias"], agent.tensors("agent")["values.bias"]
    torch.testing.assert_close(rescaled * values["deviation"] + values["mean"], bias)


def test_the_reversed_condition_learns_in_reverse(all_conditions):
    (result,) = [result for result in read_results(all_conditions) if result.name == "RePR-rev"]
    assert result.tasks == ["dodge", "catch"]


def test_finished_stages_are_not_run_again(tmp_path):
    store = run_tiny(tmp_path / "out", ["no-reh"], tasks="catch,dodge")
    before = {path: path.stat().st_mtime_ns for path in store.folder.glob("stages/*/*")}
    run_tiny(tmp_path / "out", ["no-reh", "reh-limit"], tasks="catch,dodge")
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_same_seed_same_bytes_with_one_worker_or_two(tmp_path):
    first = run_tiny(tmp_path / "a", ["RePR", "ewc"], tasks="catch,dodge", workers=1)
    second = run_tiny(tmp_path / "b", ["RePR", "ewc"], tasks="catch,dodge", workers=2)
    paths = sorted(path.relative_to(first.folder) for path in first.folder.glob("stages/*/*"))
    assert paths == sorted(path.relative_to(second.folder) for path in second.folder.glob("stages/*/*"))
    assert len(paths) > 30
    for path in paths:
        if path.name != "provenance.json":
            assert (first.folder / path).read_bytes() == (second.folder / path).read_bytes(), path


def test_another_seed_leads_to_other_weights(tmp_path):
    store = run_tiny(tmp_path / "out", ["single"], tasks="catch", seeds=(0, 1))
    first, second = (store.stage(run.teachers[0]).tensors("agent") for run in store.runs())
    assert not torch.equal(first["hidden.weight"], second["hidden.weight"])


def test_tidy_rows_have_every_episode(all_conditions):
    (result,) = [result for result in read_results(all_conditions) if result.name == "RePR"]
    rows = [row for row in tidy_rows(result) if row["evaluation"] == FINAL]
    assert len(rows) == 2 * 2 * 2
    last = [row["score"] for row in rows if row["after_task"] == "dodge" and row["task"] == "catch"]
    assert last == result.scores[1, 0].tolist()

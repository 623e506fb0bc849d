"""Teachers with a residual network: the first long-term agent is distilled from its teacher, for all conditions."""

import pytest
import torch
from conftest import plan_tiny, run_tiny

from reaper.errors import UserError
from reaper.networks.convolutional import ConvQNetwork
from reaper.networks.residual import is_residual
from reaper.results.runs import read_results

RESIDUAL = {"short-term.network": "residual", "short-term.batch-size": 8, "short-term.steps-per-update": 32}


def test_conditions_share_the_distilled_first_agent():
    study = plan_tiny(["RePR", "no-reh", "PR"], "catch,dodge", overrides=RESIDUAL)
    distilled = {chain.distilled[0].digest for chain in study.chains}
    assert len(distilled) == 1
    for chain in study.chains:
        assert chain.distilled[0].parents == {"teacher": chain.teachers[0].digest}
        assert chain.memories[0].parents["teacher"] in distilled
        assert chain.evaluations[0].parents == {"subject": chain.distilled[0].digest}
        assert chain.evaluations[0].spec["tasks"] == ["catch", "dodge"]
    assert study.chains[0].memories[1].parents["teacher"] == study.chains[0].teachers[1].digest


def test_the_weight_of_earlier_tasks_does_not_change_the_distilled_agent():
    def first(**more):
        return plan_tiny(["RePR"], "catch,dodge", overrides={**RESIDUAL, **more}).chains[0].distilled[0].digest

    assert first() == first(**{"long-term.alpha": 0.1, "long-term.learning-rate": 1e-4})
    assert first() != first(**{"long-term.agent-steps": 80})


def test_the_distilled_agent_learns_what_the_condition_distils():
    def distilled(condition, targets):
        study = plan_tiny([condition], "catch,dodge", overrides={**RESIDUAL, "long-term.targets": targets})
        return study.chains[0].distilled[0]

    assert distilled("RePR", "advantages").spec["settings"]["long_term"]["targets"] == "advantages"
    assert distilled("RePR", "advantages").digest == distilled("PR", "advantages").digest
    # Whoever distils another kind of knowledge needs values, whatever replaces those of the other conditions.
    assert distilled("ewc-policy-short", "advantages").digest == distilled("ewc-policy-short", "values").digest


@pytest.mark.parametrize("targets", ["advantages", "policy"])
def test_the_first_memory_has_the_outputs_that_were_distilled(tmp_path, targets):
    overrides = {**RESIDUAL, "short-term.agent-steps": 120, "long-term.targets": targets}
    store = run_tiny(tmp_path / "run", ["no-reh"], "catch", overrides=overrides)
    record = next(iter(store.runs()))
    distilled = next(digest for digest in record.stages if store.stage(digest).manifest.kind == "distil")
    own, agent = store.stage(distilled).tensors("agent"), store.stage(record.memories[0]).tensors("agent")
    unit = store.stage(record.teachers[0]).document("values")["advantage_deviation"]
    unit *= 0.1 if targets == "policy" else 1.0  # the temperature
    bias, weight = own["values.bias"], own["values.weight"]
    assert torch.allclose(agent["values.bias"], (bias - bias.mean()) / unit, atol=1e-5)
    assert torch.allclose(agent["values.weight"], (weight - weight.mean(dim=0)) / unit, atol=1e-5)
    assert all(torch.equal(own[name], agent[name]) for name in agent if not name.startswith("values."))


def test_other_teachers_are_copied():
    chain = plan_tiny(["RePR"], "catch,dodge").chains[0]
    assert chain.distilled == []
    assert chain.memories[0].parents["teacher"] == chain.teachers[0].digest


def test_a_single_task_condition_distils_nothing():
    assert plan_tiny(["single"], "catch", overrides=RESIDUAL).chains[0].distilled == []


def test_single_task_results_show_the_curve_of_the_teacher(tmp_path):
    store = run_tiny(tmp_path / "run", ["single"], "catch", overrides={**RESIDUAL, "short-term.agent-steps": 120})
    phase = read_results(store)[0].phases[0]
    assert (phase.agent_steps, [row["agent_steps"] for row in phase.rows]) == (120, [120])


def test_vectors_are_refused_before_anything_runs():
    with pytest.raises(UserError, match="residual needs images"):
        plan_tiny(["RePR"], "CartPole-v1", overrides=RESIDUAL)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("residual") / "run"
    return run_tiny(
        folder, ["no-reh"], "catch", overrides={**RESIDUAL, "short-term.quantiles": 3, "short-term.agent-steps": 120}
    )


def test_the_first_memory_holds_the_distilled_agent(finished):
    record = next(iter(finished.runs()))
    teacher, memory = (finished.stage(digest) for digest in (record.teachers[0], record.memories[0]))
    distilled = next(digest for digest in record.stages if finished.stage(digest).manifest.kind == "distil")
    own, agent = finished.stage(distilled).tensors("agent"), memory.tensors("agent")
    assert is_residual(teacher.tensors("agent"))
    assert not is_residual(agent)
    assert all(torch.equal(own[name], agent[name]) for name in agent)


def test_results_show_the_curve_of_the_distilled_agent(finished):
    result = read_results(finished)[0]
    assert result.record.first_is_distilled
    assert result.phases[0].agent_steps == 160  # of long-term training, not of the teacher's
    assert [row["agent_steps"] for row in result.phases[0].rows] == [120, 160]
    assert result.single[0].shape == result.scores[0, 0].shape


def test_the_agent_loads_with_the_papers_network(finished):
    import reaper

    assert isinstance(reaper.load(finished.folder).network, ConvQNetwork)

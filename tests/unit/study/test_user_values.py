"""A value that the user gives holds in every condition, and the records show it."""

import json

import pytest
from conftest import TINY, run_plan, tiny_options

from reaper.cli.main import main
from reaper.config.overrides import find_setting, with_overrides
from reaper.config.presets import ARCADE, VARIANTS
from reaper.errors import UserError
from reaper.report.provenance import read_provenance
from reaper.results.runs import read_results
from reaper.retention import EWC
from reaper.storage.records import StoreHeader
from reaper.storage.store import Store
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS, Condition
from reaper.study.experiments import EXPERIMENTS, plan_experiment
from reaper.study.options import StudyOptions
from reaper.study.plan import plan
from reaper.tasks.sequence import find_sequence

# Settings that variants, presets, conditions or a fraction change, each with a value that none of them has.
GIVEN = {
    "long-term.alpha": 0.123,
    "long-term.late-alpha": 0.321,
    "long-term.late-from": 3,
    "long-term.agent-steps": 1234,
    "network.width": 3,
    "gan.steps": 7,
    "gan.width": 5,
    "gan.latent-size": 9,
    "rehearsal.capacity": 77,
    "ewc.ewc-lambda": 11.5,
    "online-ewc.ewc-lambda": 12.5,
    "online-ewc.gamma": 0.5,
    "evaluation.interval": 999,
    "evaluation.min-interval": 5,
    "short-term.agent-steps": 4321,
}


def values(settings):
    return {name: find_setting(name).value_in(settings) for name in GIVEN}


def studied(conditions, **options):
    return plan(conditions, StudyOptions(device="cpu", **options))


def test_the_users_value_holds_in_every_condition_of_the_table():
    study = studied(list(CONDITIONS), tasks="arcade-3", fraction=0.1, overrides=GIVEN)
    assert {chain.condition.name: values(chain.settings) for chain in study.chains} == dict.fromkeys(CONDITIONS, GIVEN)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_users_value_holds_in_every_chain_of_every_experiment(name):
    study = plan_experiment(name, StudyOptions(device="cpu", fraction=0.1, overrides=GIVEN))
    for chain in study.chains:
        assert values(chain.settings) == GIVEN
        for stage in chain.stages:  # and so in what each stage is run with
            assert stage.spec["settings"].get("long_term", {}).get("agent_steps", 1234) == 1234


def test_every_stage_of_an_extended_run_trains_with_the_users_alpha():
    (chain,) = studied(["RePR-extend"], overrides={"long-term.alpha": "0.2"}).chains
    assert [stage.spec["settings"]["long_term"]["alpha"] for stage in chain.memories[1:]] == [0.2, 0.2]


def test_the_users_value_beats_that_of_a_method_and_of_a_condition(monkeypatch):
    weak = Condition("weak", "distillation", EWC(ewc_lambda=5.0), overrides={"long_term.alpha": 0.9})
    monkeypatch.setitem(CONDITIONS._things, "weak", weak)
    given = {"ewc.ewc_lambda": 10, "long-term.alpha": 0.4}
    (chain,) = studied(["weak"], overrides=given).chains
    assert chain.condition.make_retention(chain.settings).ewc_lambda == 10
    assert chain.settings.long_term.alpha == 0.4
    (chain,) = studied(["weak"]).chains
    assert (chain.condition.make_retention(chain.settings).ewc_lambda, chain.settings.long_term.alpha) == (5, 0.9)


def test_a_fraction_derives_the_interval_of_evaluations_from_the_users_minimum():
    settings = studied(["RePR"], fraction=0.01, overrides={"evaluation.min-interval": 50}).config.settings
    assert settings.evaluation.interval == ARCADE.evaluation.interval // 100


def test_without_a_users_value_a_condition_is_its_variant_of_the_preset():
    for name, condition in CONDITIONS.items():
        (chain,) = studied([name]).chains
        assert chain.settings == with_overrides(VARIANTS[condition.variant](ARCADE), condition.own_settings), name
        built = build_chain(condition, find_sequence("arcade-3"), 0, ARCADE)
        assert [stage.digest for stage in chain.stages] == [stage.digest for stage in built.stages]


# -- conditions that become equal


def test_conditions_that_the_users_value_makes_equal_are_told_in_one_line(monkeypatch):
    for name, strength in (("weak", 5.0), ("strong", 500.0)):
        row = Condition(name, "distillation", EWC(ewc_lambda=strength))
        monkeypatch.setitem(CONDITIONS._things, name, row)
    assert studied(["weak", "strong", "RePR"]).notices == []
    study = studied(["weak", "strong", "RePR"], overrides={"ewc.ewc-lambda": 10}, seeds=(0, 1))
    assert study.notices == ["with these settings some conditions train the same agent: weak = strong"]


def test_the_points_of_a_sweep_move_to_the_users_value_and_take_its_name():
    study = plan_experiment("importance", StudyOptions(device="cpu", overrides={"long-term.alpha": 0.2}))
    assert {chain.condition.name for chain in study.chains} == {"RePR alpha=0.2", "PR alpha=0.2"}
    assert study.notices == [
        "--long-term.alpha fixes what this experiment varies: of 10 points 2 are left (RePR alpha=0.2, PR alpha=0.2)"
    ]
    study = plan_experiment("ewc-search", StudyOptions(device="cpu", overrides={"online-ewc.gamma": 0.5}))
    names = {chain.condition.name for chain in study.chains if chain.condition.base == "online-ewc"}
    assert names == {f"online-ewc lambda={strength} gamma=0.5" for strength in (25, 75, 125, 175)}
    assert plan_experiment("ewc-search", StudyOptions(device="cpu")).notices == []


def test_a_weight_that_late_tasks_do_not_have_is_told():
    options = {"tasks": "arcade-6", "overrides": {"long-term.alpha": 0.4}}
    assert studied(["RePR-extend"], **options).notices == [
        "--long-term.alpha 0.4 does not hold from task 5 on: RePR-extend has --long-term.late-alpha 0.01"
    ]
    assert studied(["RePR-extend"], **{**options, "tasks": "arcade-3"}).notices == []
    options["overrides"]["long-term.late-alpha"] = 0.4
    assert studied(["RePR-extend"], **options).notices == []


# -- what is written down


def test_records_and_report_show_the_users_value(tmp_path):
    # 0.35 is the preset's value too, and would be in no table of differences
    study = plan(["RePR-extend"], tiny_options(tasks="catch,dodge", overrides={"long-term.alpha": "0.35"}))
    store = run_plan(study, tmp_path / "run")
    assert store.header.user_values["long-term.alpha"] == 0.35
    assert store.header.user_values.keys() == {name.replace("_", "-") for name in TINY} | {"long-term.alpha"}
    (run,) = read_results(store)
    assert (run.settings.long_term.alpha, run.settings.long_term.agent_steps) == (0.35, TINY["long-term.agent-steps"])
    last = store.stage(run.record.memories[-1]).spec["settings"]["long_term"]
    assert (last["alpha"], last["agent_steps"]) == (0.35, TINY["long-term.agent-steps"])
    given = next(t for t in read_provenance(store, [run]).tables if t.title == "Settings given by the user")
    assert ("long-term.alpha", "0.35") in given.rows


def test_a_dry_run_shows_the_values_of_each_condition_and_writes_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("reaper.bench.calibration.SECONDS_PER_TRIAL", 0.02)
    out = tmp_path / "run"
    words = ["run", "RePR-extend", "RePR", "--tasks", "catch,dodge", "--fraction", "0.01", "--device", "cpu"]
    words += ["--out", str(out), "--long-term.alpha", "0.2", "--dry-run"]
    assert main([*words, "--json"]) == 0
    rows = {row["title"]: row for row in json.loads(capfd.readouterr().out)}
    assert rows["RePR-extend: consolidate dodge (seed 0)"]["settings"]["long_term"]["alpha"] == 0.2
    assert main(words) == 0
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert ["--long-term.alpha", "0.2", "every", "condition,", "as", "given"] in lines
    assert ["--network.width", "2", "RePR-extend"] in lines
    assert not out.exists()
    assert main(["run", "RePR", "--json"]) == 2


# -- folders


def header(user_values):
    return StoreHeader("1", "arcade", 1.0, {"a": {"b": 1}}, user_values)


def test_a_folder_with_other_given_values_is_refused(tmp_path):
    Store.open_for(tmp_path, header({"long-term.alpha": 0.2})).close()
    Store.open_for(tmp_path, header({"long-term.alpha": 0.2})).close()
    with pytest.raises(UserError, match=r"--long-term.alpha 0.2 was given, and not now\); choose another --out"):
        Store.open_for(tmp_path, header({}))
    with pytest.raises(UserError, match=r"--ewc.ewc-lambda was not given\); choose another --out"):
        Store.open_for(tmp_path, header({"long-term.alpha": 0.2, "ewc.ewc-lambda": 3.0}))


def test_a_folder_of_a_version_that_did_not_record_them_resumes(tmp_path):
    Store.open_for(tmp_path, header(None)).close()
    assert "user_values" not in json.loads((tmp_path / "reaper.json").read_text())
    store = Store.open_for(tmp_path, header({"long-term.alpha": 0.2}))
    assert store.header.user_values is None
    store.close()

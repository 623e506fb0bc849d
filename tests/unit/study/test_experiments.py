"""The paper's experiments: what they share, what they end in, and what they say before they start."""

import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import TINY, run_plan, tiny_options
from rich.console import Console
from rich.table import Table

from reaper.bench.costs import CostEstimator, Load, load_of
from reaper.cli.main import main
from reaper.engines.execute import resolve_engine
from reaper.errors import DamagedArtefact, UserError
from reaper.paper import results as paper
from reaper.report import experiment_sections
from reaper.report.text_report import markdown_report, terminal_report
from reaper.results.runs import read_results
from reaper.storage.records import ExperimentRecord
from reaper.storage.store import Store
from reaper.storage.verify import verify
from reaper.study import experiments
from reaper.study.experiments import EXPERIMENTS, plan_experiment
from reaper.study.options import StudyOptions
from reaper.study.plan import plan

SHRUNK = {**TINY, "evaluation.interval": 200}
CPU = StudyOptions(device="cpu")


def planned(name, tasks="catch,dodge", **options):
    return plan_experiment(name, tiny_options(tasks=tasks, overrides=SHRUNK, **options))


def executed(study, out):
    """The store, and the kinds of the stages that were run and not found there."""
    ran = []
    store = run_plan(study, out, lambda stage, event: ran.append(stage.kind) if event.name == "started" else 0)
    return store, ran


def sections_html(store):
    return "\n".join(section.html for section in experiment_sections.read_experiment_sections(store))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Three experiments in one folder, the grid with two points instead of sixteen; what each of them ran."""
    out, ran = tmp_path_factory.mktemp("experiments") / "run", {}
    search = EXPERIMENTS["ewc-search"]
    few = replace(search, conditions=(search.conditions[0], search.conditions[5], search.conditions[-1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "EXPERIMENTS", {**EXPERIMENTS, "ewc-search": few})
        for name in ("overlap", "item-quality", "ewc-search"):
            store, ran[name] = executed(planned(name), out)
    return store, ran


# -- what is shared


def digests(name, tasks="arcade-3"):
    return {stage.digest for stage in plan_experiment(name, StudyOptions(tasks=tasks, device="cpu")).stages}


def test_experiments_share_what_they_have_in_common():
    main_, importance, overlap, quality = map(digests, ("main", "importance", "overlap", "item-quality"))
    search, short = digests("ewc-search"), digests("policy-short")
    references = 3 + 4 + 1  # teachers, their evaluations (the first one's also on the later tasks), random play
    # alpha 0.35 is the arcade default: three memories and the evaluations of two, and PR's first memory
    assert len(main_ & importance) == references + 5 + 1
    # RePR's three memories and the evaluations of two
    assert len(main_ & overlap) == references + 5
    # and the three generators of DGDMN
    assert len(main_ & quality) == references + 5 + 3
    # lambda 300 and (75, 0.99) are the defaults: three memories and the evaluations of two each
    assert len(main_ & search) == references + 10
    # policies have memories of their own
    assert len(main_ & short) == references
    # larger networks: not even the teachers
    assert not main_ & digests("extended", "arcade-3")


def test_the_points_of_a_sweep_share_their_first_memory():
    chains = plan_experiment("ewc-search", CPU).chains
    first = {base: {c.memories[0].digest for c in chains if c.condition.base == base} for base in ("ewc", "online-ewc")}
    assert [len(found) for found in first.values()] == [1, 1]
    assert len({chain.memories[1].digest for chain in chains}) == 16


def test_a_sweep_leaves_the_digests_of_plain_conditions_alone():
    swept = {chain.condition.name: chain for chain in plan_experiment("importance", CPU).chains}
    (plain,) = plan(["RePR"], CPU).chains
    assert [s.digest for s in swept["RePR alpha=0.35"].memories] == [s.digest for s in plain.memories]


def test_run_names_are_unique_also_on_the_first_two_tasks():
    for name in EXPERIMENTS:
        chains = plan_experiment(name, replace(CPU, seeds=(0, 1))).chains
        names = [chain.name for chain in chains]
        assert len(set(names)) == len(names)
        assert not any("/" in name for name in names)
    chains = plan_experiment("importance", CPU).chains
    assert sorted(len(c.memories) for c in chains if c.condition.name == "RePR alpha=0.75") == [2, 3]


def test_a_second_experiment_runs_only_what_it_adds(finished):
    _, ran = finished
    assert ran["overlap"].count("short-term") == 2
    assert "short-term" not in ran["item-quality"] + ran["ewc-search"]
    assert ran["item-quality"].count("consolidate") == 0
    assert ran["item-quality"].count("student") == 6
    assert ran["ewc-search"].count("consolidate") == 2 + 3  # a first memory for each base, then the three points


# -- what they end in


def test_overlaps_are_those_of_the_stored_fishers(finished):
    store, _ = finished
    (record,) = [record for record in store.experiments() if record.experiment == "overlap"]
    for row in (row for row in record.stages if row.role == "overlap"):
        first, second = (store.stage(digest).tensors("fisher") for digest in row.parents)
        f1, f2 = (np.concatenate([v.numpy().ravel().astype(float) for v in f.values()]) for f in (first, second))
        expected = np.sqrt(f1 / f1.sum() * (f2 / f2.sum())).sum()  # 1 - d^2, multiplied out
        (found,) = store.stage(row.digest).document("overlap")
        assert found["overlap"] == pytest.approx(expected, rel=1e-6)
        assert 0 < found["overlap"] < 1


def test_students_of_real_and_generated_items_start_alike_and_end_apart(finished):
    store, _ = finished
    (record,) = [record for record in store.experiments() if record.experiment == "item-quality"]
    made = {(row.about["items"], *row.about["tasks"]): row for row in record.stages if row.role == "student"}
    assert len(made) == 6
    agents = {key: store.stage(row.digest).tensors("agent")["values.weight"] for key, row in made.items()}
    assert not (agents["real", "catch"] == agents["generated", "catch"]).all()
    assert len(made["real", "catch", "dodge"].parents) == 3  # who answers, and who plays each task
    assert len(made["generated", "catch", "dodge"].parents) == 2


def table_of(store, name, title):
    (section,) = [
        section for section in experiment_sections.read_experiment_sections(store) if section.experiment.name == name
    ]
    return next(table for table in section.tables if table.title == title)


def test_the_grid_search_can_be_recomputed_by_hand(finished):
    store, _ = finished
    table = table_of(store, "ewc-search", "Grid search of ewc")
    assert [row[0] for row in table.rows] == ["lambda=50", "lambda=300"]
    averages = []
    for row in table.rows:
        (run,) = [run for run in read_results(store) if run.name == f"ewc {row[0]}"]
        shares = []
        for task, final in enumerate(run.scores[-1]):
            episodes = [s for r in store.stage(run.record.teachers[task]).document("rows") for s in r["scores"]]
            spread = max(episodes) - min(episodes)
            shares.append((final.mean() - min(episodes)) / spread if spread else math.nan)
        averages.append(np.nanmean(shares))
        assert row[-3:-1] == (f"{averages[-1]:.2f}", f"{np.isfinite(shares).sum()} of 2")
    chosen = [place for place, row in enumerate(table.rows) if row[-1] == "chosen"]
    assert chosen == [int(np.argmax(averages))]


def test_every_section_needs_nothing_but_the_store(finished):
    store, _ = finished
    html = sections_html(Store.open(store.folder))
    for name in ("overlap", "item-quality", "ewc-search"):
        assert f'id="{name}--catch-dodge"' in html
    assert html.count("<figure>") == 1  # real and generated states
    assert "Run at a fraction" not in html
    assert "real items, all 2 tasks" in html
    assert str(store.folder) not in html


def test_unstarted_experiments_are_reported_with_their_fraction(tmp_path):
    studies = [planned(name, "catch,dodge,frog", fraction=0.5) for name in EXPERIMENTS]
    store = Store.open_for(tmp_path / "run", studies[0].header)
    store.close()
    for study in studies:
        for chain in study.chains:
            store.write_run(chain.record())
        for record in study.experiments:
            store.write_experiment(record)
    sections = experiment_sections.read_experiment_sections(store)
    assert [section.experiment.name for section in sections] == list(EXPERIMENTS)
    for section in sections:
        caveats = " ".join(section.caveats)
        assert "Run at a fraction (0.5)" in caveats
        assert "Not finished" in caveats
        assert section.summary == ""
        assert section.html
    parts = list(terminal_report(store))
    assert len(parts) > 2 * len(sections)
    console = Console(width=500, file=io.StringIO(), color_system=None)  # nothing is wrapped or cut by the console
    console.print(*(part for part in parts if isinstance(part, Table)))
    assert max(map(len, console.file.getvalue().splitlines())) <= 80
    assert markdown_report(store).count("## Experiment") == len(EXPERIMENTS)


def test_points_of_a_sweep_are_not_in_the_tables_of_conditions(finished):
    from reaper.report.scores import gather_scores

    store, _ = finished
    names = {c.name for scores in gather_scores(read_results(store)) for c in scores.conditions}
    assert names == {"RePR", "RePR-rev"}


def test_the_papers_numbers_are_shown_for_the_papers_tasks():
    from reaper.report.experiment_data import ExperimentData
    from reaper.report.experiment_tables import importance, overlap

    record = ExperimentRecord(
        name="overlap--atari-3--seed-0",
        experiment="overlap",
        sequence="atari-3",
        tasks=tuple(paper.TASKS),
        titles=tuple(paper.TITLES),
        seed=0,
        command="",
        runs=(),
        stages=(),
    )
    tables, _ = overlap(ExperimentData(Store("nowhere"), [record], []))
    assert tables[0].rows == [
        ("RePR in the paper", "0.691", "0.233", "0.198"),
        ("RePR-rev in the paper", "0.753", "0.192", "0.110"),
    ]
    two = replace(record, tasks=tuple(paper.TASKS[:2]), titles=tuple(paper.TITLES[:2]))
    assert importance(ExperimentData(Store("nowhere"), [two], []))[0] == []


# -- a store with experiments is checked, moved and damaged like any other


def test_verify_knows_the_stages_of_an_analysis(finished, tmp_path):
    import shutil

    store, _ = finished
    assert verify(store.folder) == []
    shutil.copytree(store.folder, tmp_path / "copy")
    copy = Store.open(tmp_path / "copy")
    record = next(record for record in copy.experiments() if record.experiment == "overlap")
    fisher = next(row for row in record.stages if row.role == "fisher")
    (copy.path_of(fisher.digest) / "fisher.safetensors").write_bytes(b"gone")
    (problem,) = verify(copy.folder)
    assert fisher.title in problem.remedy
    assert "reaper experiment" in problem.remedy
    (copy.folder / "experiments" / f"{record.name}.json").write_text("{}")
    assert any(record.name in str(problem.path) for problem in verify(copy.folder))
    with pytest.raises(DamagedArtefact):
        copy.experiments()


def test_a_forged_record_is_a_one_line_error(finished, tmp_path):
    import shutil

    shutil.copytree(finished[0].folder, tmp_path / "copy")
    copy = Store.open(tmp_path / "copy")
    record = next(record for record in copy.experiments() if record.experiment == "item-quality")
    forged = tuple(replace(row, about={"tasks": ["nothing"], "items": "real"}) for row in record.stages)
    copy.write_experiment(replace(record, stages=forged))
    with pytest.raises(DamagedArtefact, match="do not fit together"):
        experiment_sections.read_experiment_sections(copy)
    copy.write_experiment(replace(record, stages=(replace(forged[0], digest="../../elsewhere"),)))
    with pytest.raises(DamagedArtefact, match="is not the record"):
        copy.experiments()


def test_an_exported_store_carries_its_experiments(finished, tmp_path, capfd):
    store, _ = finished
    assert main(["export", str(store.folder), str(tmp_path / "all.reaper")]) == 0
    assert main(["import", str(tmp_path / "all.reaper"), str(tmp_path / "there")]) == 0
    there = Store.open(tmp_path / "there")
    assert there.experiments() == store.experiments()
    assert there.stages() == store.stages()
    assert verify(there.folder) == []
    assert sections_html(there) == sections_html(store)


# -- before they start


def listed(capfd, *words):
    assert main(["experiment", "--list", "--json", "--device", "cpu", *words]) == 0
    return {row["name"]: row for row in json.loads(capfd.readouterr().out)}


def test_the_list_counts_finished_and_remaining_work(finished, capfd, monkeypatch):
    monkeypatch.setattr("reaper.bench.calibration.SECONDS_PER_TRIAL", 0.02)
    settings = [word for name, value in SHRUNK.items() for word in (f"--{name}", str(value))]
    out = ["--out", str(finished[0].folder), "--tasks", "catch,dodge", *settings]
    rows = listed(capfd, *out)
    assert list(rows) == list(EXPERIMENTS)
    assert (rows["overlap"]["left"], rows["overlap"]["hours"]) == (0, 0)
    assert rows["overlap"]["done"] == rows["overlap"]["stages"] == len(planned("overlap").stages)
    assert rows["main"]["left"] > 0
    assert rows["main"]["hours"] > 0
    assert rows["ewc-search"]["from_finished"] > 0  # the other points of the grid are like those that are done
    bare = listed(capfd, "--out", str(finished[0].folder / "nowhere"), "--tasks", "catch,dodge", *settings)
    # two teachers of 240 frames; RePR and RePR-rev each gather 240, then distil 160; four Fishers gather 240 each
    assert bare["overlap"]["agent_steps"] == 2 * 240 + 2 * (240 + 160) + 4 * 240
    assert bare["overlap"]["generator_steps"] == 2 * 2 * 8


def test_the_work_of_a_stage_follows_from_its_spec():
    study = planned("item-quality")
    loads = {stage.title: load_of(stage) for stage in study.stages}
    episodes = SHRUNK["evaluation.episodes"]
    assert loads["learn catch (seed 0)"] == Load(training_steps=240, episodes=2 * episodes)  # tests at 200 and at 240
    assert loads["train generator on catch (seed 0)"] == Load(collected_steps=240, generator_steps=8)
    assert loads["student of catch and dodge from real items (seed 0)"] == Load(160, 480, episodes=2 * episodes)
    assert loads["student of catch from generated items (seed 0)"] == Load(160, episodes=episodes)


def test_hours_are_the_longest_chain_or_the_work_divided_by_the_workers(monkeypatch):
    study = planned("item-quality")
    estimator, (_, resources) = CostEstimator(None), resolve_engine(study, study.config.options)
    monkeypatch.setattr(estimator, "_calibrated", lambda stage, load, resources: 3600.0 if load.training_steps else 0.0)
    learning = sum(load_of(stage).training_steps > 0 for stage in study.stages)
    assert learning == 2 + 1 + 6  # teachers, one memory, students
    assert estimator.cost(study.stages, replace(resources, workers=1)).hours == pytest.approx(9)
    assert estimator.cost(study.stages, replace(resources, workers=2)).hours == pytest.approx(4.5)
    assert estimator.cost(study.stages, replace(resources, workers=50)).hours == pytest.approx(3)  # one after another


def test_a_dry_run_prints_the_stages_and_writes_nothing(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("reaper.bench.calibration.SECONDS_PER_TRIAL", 0.02)
    words = [
        "experiment",
        "overlap",
        "--dry-run",
        "--fraction",
        "0.01",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "o"),
    ]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    seen = set()
    for row in rows:
        assert set(row["parents"].values()) <= seen  # parents come first
        seen.add(row["digest"])
    assert not any(row["done"] for row in rows)
    assert main(words) == 0
    printed = capfd.readouterr().out
    assert "RePR-rev: overlap of tasks" in printed
    assert f"{len(rows)} stages, 0 done" in printed
    assert list(tmp_path.iterdir()) == []


BAD = [
    (["experiment", "mian"], "did you mean 'main'"),
    (["experiment"], "name an experiment"),
    (["experiment", "overlap", "--tasks", "catch"], "needs 2 tasks or more"),
    (["experiment", "extended", "--tasks", "catch"], "needs 2 tasks or more"),
    (["experiment", "main", "--fraction", "1.5"], "at most 1"),
    (["experiment", "--list", "--fraction", "0"], "--fraction must be above 0"),
    (["experiment", "main", "--list"], "leave out NAME"),
    (["experiment", "main", "--json"], "--json goes with"),
    (["experiment", "main", "--long-term.alhpa", "0.5"], "did you mean 'long-term.alpha'"),
    (["experiment", "main", "--sedes", "1"], "did you mean --seeds"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_bad_input_is_a_one_line_error(words, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capfd.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_list_reports_a_damaged_store(tmp_path, capfd):
    (tmp_path / "reaper.json").write_text("{")
    assert main(["experiment", "--list", "--device", "cpu", "--out", str(tmp_path)]) == 2
    assert len(capfd.readouterr().err.strip().splitlines()) == 1


def test_a_store_with_other_settings_has_nothing_finished(finished, capfd, monkeypatch):
    monkeypatch.setattr("reaper.bench.calibration.SECONDS_PER_TRIAL", 0.02)
    words = ["experiment", "overlap", "--dry-run", "--device", "cpu", "--out", str(finished[0].folder)]
    assert main([*words, "--tasks", "catch,dodge"]) == 0
    printed = capfd.readouterr().out
    assert "was made with other settings" in " ".join(printed.split())  # wherever the terminal breaks the line
    assert ", 0 done" in printed


def test_the_list_skips_experiments_with_too_few_tasks(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr("reaper.bench.calibration.SECONDS_PER_TRIAL", 0.02)
    rows = listed(capfd, "--tasks", "catch", "--fraction", "0.01", "--out", str(tmp_path / "none"))
    assert "needs 2 tasks" in rows["main"]["note"]
    assert rows["item-quality"]["stages"] > 0


def test_a_plan_needs_a_condition():
    with pytest.raises(UserError, match="at least one condition"):
        plan([], CPU)

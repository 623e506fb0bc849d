"""The comparison with the paper: intervals, verdicts and sections, from rows written by hand."""

import json
from dataclasses import asdict

import pytest

from reaper.report.reproduction.claims import (
    CLAIMS,
    CONFIRMED,
    OPEN,
    REFUTED,
    claim_lines,
    claims_table,
    differences,
    with_interval,
)
from reaper.report.reproduction.claims_figure import claims_figure
from reaper.report.reproduction.course_figure import average_so_far, course_figure
from reaper.report.reproduction.differences import decline, explanations
from reaper.report.reproduction.evidence import pooled, read_groups, reported
from reaper.report.reproduction.figure_sections import extend_results, main_results, policy_only_results
from reaper.report.reproduction.overlap_section import fisher_overlap
from reaper.report.reproduction.page import reproduction_page
from reaper.report.reproduction.score_table import score_table
from reaper.report.reproduction.student_section import scratch
from reaper.report.reproduction.sweep_sections import grids, lscale
from reaper.results.metrics import t_interval
from reaper.results.queue import FILE, progress, read_queue
from reaper.results.studies import Source, Study, read_sources
from reaper.results.summary import COLUMNS, as_csv

TASKS = ("catch", "dodge", "shooter")
ENTRY = {
    "study": "main",
    "sequence": "arcade-3",
    "preset": "arcade",
    "fraction": 1.0,
    "seeds": [20, 21, 22],
    "command": "reaper experiment main --tasks arcade-3",
    "machine": "one core",
    "minutes": 26,
    "basis": "a guess",
}


def rows_of(condition, seed, last, sequence="arcade-3", tasks=TASKS):
    """Final rows: perfect scores of what has been learnt, then the given normalised ones after the last task."""
    rows = []
    for k, after in enumerate(tasks):
        for j, task in enumerate(tasks):
            level = last[j] if k == len(tasks) - 1 else float(j <= k)
            rows.append(row(condition, seed, level, sequence=sequence, num_tasks=k + 1, after_task=after, task=task))
    return rows


def row(condition, seed, level, kind="final", sequence="arcade-3", **values):
    known = {"episodes": 30, "mean": 20 * level, "std": 2.0, "min": 0.0, "max": 25.0, "normalised": level}
    found = {
        "sequence": sequence,
        "seed": seed,
        "condition": condition,
        "kind": kind,
        "agent_steps": 1,
        **known,
        **values,
    }
    return {name: found.get(name) for name in COLUMNS}


def write(folder, rows, name="a", studies=(), **about):
    titles = {"catch": "Catch", "dodge": "Dodge", "shooter": "Shooter"}
    common = {"preset": "arcade", "fraction": 1.0, "overrides": {}, "commit": "abc", "seconds": 60.0, **about}
    source = Source(name=name, titles=titles, devices=["cpu, abacus"], studies=tuple(studies), **common)
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.csv").write_text(as_csv(rows))
    (folder / f"{name}.json").write_text(json.dumps({"format": 1, **asdict(source)}))


def study(experiment, seed, missing=0):
    return Study(
        experiment=experiment,
        sequence="arcade-3",
        seed=seed,
        command=f"reaper experiment {experiment} --tasks arcade-3 --seeds {seed}",
        conditions=("RePR",),
        finished="2026-01-02",
        stages=10,
        missing=missing,
        seconds=600.0,
    )


@pytest.fixture
def main_data(tmp_path):
    """RePR with averages 0.8, 0.9 and 1.0; the others 0.5 below it, except for reh and PR."""
    rows = []
    for seed, level in ((20, 0.8), (21, 0.9), (22, 1.0)):
        for condition, gap in (("RePR", 0.0), ("reh", 0.05), ("ewc", -0.5), ("PR", -0.01 * seed)):
            rows += rows_of(condition, seed, [level + gap] * 3)
    write(tmp_path / "data", rows, studies=[study("main", seed) for seed in (20, 21, 22)])
    return tmp_path / "data"


def test_an_interval_is_students():
    # 1, 2, 3: standard deviation 1, standard error 0.57735, t(2) = 4.303
    assert t_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.303 * 0.57735, 2 + 4.303 * 0.57735), abs=1e-4)
    assert t_interval([1.0, 1.0]) == (1.0, 1.0)
    assert t_interval([5.0]) == (-float("inf"), float("inf"))
    assert with_interval({0: 1.0, 1: 2.0, 2: 3.0}) == "2.00 [-0.48, 4.48] (3 seeds)"
    assert with_interval({0: 0.25}, signed=True) == "+0.25 (1 seed)"
    assert with_interval({}) == "–"


def test_a_claim_is_settled_when_its_whole_interval_is_on_one_side():
    close, above = (next(claim for claim in CLAIMS if claim.other == other) for other in ("reh", "ewc"))
    assert above.verdict([0.3, 0.31]) == CONFIRMED
    assert above.verdict([0.05, 0.051]) == REFUTED  # above, but not far
    assert above.verdict([0.0, 0.5]) == OPEN
    assert above.verdict([0.9]) == OPEN  # one seed
    assert close.verdict([-0.05, -0.051]) == CONFIRMED
    assert close.verdict([-0.2, -0.201]) == REFUTED


def test_conditions_are_compared_seed_by_seed(main_data):
    (group,) = read_groups(main_data)
    assert group.levels("RePR") == pytest.approx({20: 0.8, 21: 0.9, 22: 1.0})
    assert differences(group, "ewc") == pytest.approx({20: 0.5, 21: 0.5, 22: 0.5})
    assert differences(group, "PR") == pytest.approx({20: 0.2, 21: 0.21, 22: 0.22})
    assert differences(group, "no-reh") == {}
    lines = claim_lines([group])
    assert lines[0] == "arcade-3, preset arcade, the full budget"
    assert "  confirmed  RePR is far above EWC: +0.50 [0.50, 0.50] (3 seeds)" in lines
    assert "  confirmed  RePR is close to rehearsal with all items: -0.05 [-0.05, -0.05] (3 seeds)" in lines


def test_the_figure_of_claims_has_a_row_per_claim_and_fills_what_is_settled(main_data):
    groups = read_groups(main_data)
    (axes,) = claims_figure(groups).axes
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == [
        "close to reh",
        "far above no-reh",
        "far above ewc",
    ]
    marks = [line for line in axes.get_lines() if line.get_label() == "arcade-3"]
    assert [float(mark.get_xdata()[0]) for mark in marks] == pytest.approx([-0.05, 0.5, 0.21])  # reh, ewc, PR
    assert all(mark.get_markerfacecolor() == mark.get_color() for mark in marks)
    papers = [line for line in axes.get_lines() if line.get_label() == "paper"]
    assert len(papers) == len(CLAIMS)


def test_an_open_claim_is_hollow(tmp_path):
    write(tmp_path / "data", rows_of("RePR", 20, [0.9] * 3) + rows_of("ewc", 20, [0.1] * 3))
    (axes,) = claims_figure(read_groups(tmp_path / "data")).axes
    (mark,) = [line for line in axes.get_lines() if line.get_label() == "arcade-3"]
    assert mark.get_markerfacecolor() != mark.get_color()
    assert claims_figure([]) is None


def test_averages_over_the_tasks_learnt_so_far(main_data):
    (group,) = read_groups(main_data)
    assert average_so_far(group, "ewc", 2) == pytest.approx(1.0)  # both tasks are learnt, and neither forgotten
    assert average_so_far(group, "ewc", 3) == pytest.approx(0.4)
    (panel,) = (axes for axes in course_figure([group]).axes if axes.get_visible())
    assert [text.get_text() for text in panel.texts] == ["ewc", "PR", "RePR", "reh"]  # from below
    assert course_figure([]) is None


def test_many_tasks_are_averaged_in_the_table(tmp_path):
    games = tuple("abcde")
    write(tmp_path / "data", rows_of("RePR", 20, [1.0, 0.9, 0.8, 0.7, 0.6], sequence="arcade-5", tasks=games))
    (table,) = main_results(read_groups(tmp_path / "data")).tables
    assert table.rows == [("RePR", "1.00", "1.00", "1.00", "1.00", "0.80")]
    assert table.header[:2] == ("condition", "after a")


def test_an_average_over_seeds_is_left_out_where_the_seeds_are_known(main_data):
    averaged = [{**each, "seed": -1} for each in rows_of("RePR", 0, [0.7] * 3) + rows_of("ewc", 0, [0.1] * 3)]
    write(main_data, averaged, name="printed", averaged=True, studies=[study("main", seed) for seed in (0, 1)])
    groups = read_groups(main_data)
    assert [group.name for group in groups] == ["arcade-3", "arcade-3, seeds 0 and 1 averaged"]
    assert claims_table(groups).header == ("claim", "paper", "arcade-3")
    assert claims_table(groups[1:]).header == ("claim", "paper", "arcade-3, seeds 0 and 1 averaged")
    assert [group.seeds for group in groups] == [[20, 21, 22], [0, 1]]


def test_of_two_sources_the_fuller_one_counts(main_data):
    write(main_data, rows_of("RePR", 20, [0.1] * 3)[:-1], name="0-part")
    (group,) = read_groups(main_data)
    assert group.levels("RePR")[20] == pytest.approx(0.8)


def test_single_task_dqns_are_those_of_the_main_conditions(tmp_path):
    def singles(level):
        return [row("single", 20, level, num_tasks=1, after_task=task, task=task) for task in TASKS]

    write(tmp_path / "data", rows_of("RePR-extend", 20, [0.9] * 3) + singles(0.1), name="a-larger")
    write(tmp_path / "data", rows_of("RePR", 20, [0.8] * 3) + singles(1.0), name="b-main")
    (group,) = read_groups(tmp_path / "data")
    assert group.score("single", "catch").mean == pytest.approx(20.0)
    assert group.shares("RePR")[20] == pytest.approx(0.8)


def test_other_settings_are_another_group(main_data):
    write(main_data, rows_of("RePR", 20, [0.1] * 3), name="b", overrides={"long-term.alpha": 0.5})
    assert [group.label for group in read_groups(main_data)] == [
        "arcade-3, preset arcade, the full budget",
        "arcade-3, preset arcade, the full budget, --long-term.alpha 0.5",
    ]
    assert [group.name for group in read_groups(main_data)] == ["arcade-3", "arcade-3, 1 changed"]


def test_atari_counts_the_papers_budget_whatever_the_preset(tmp_path):
    write(tmp_path / "data", rows_of("RePR", 0, [1.0] * 3, sequence="atari-3"), preset="modern")
    (group,) = read_groups(tmp_path / "data")
    assert group.share == pytest.approx(0.1)
    assert group.label == "atari-3, preset modern, 0.1 of the paper's budget"
    assert group.name == "atari-3, modern at 0.1"


def test_episodes_of_several_seeds_are_pooled():
    # 0, 2 and 4, 8: mean 3.5, variance (12.25 + 2.25 + 0.25 + 20.25) / 4
    score = pooled([{"episodes": 2, "mean": 1.0, "std": 1.0}, {"episodes": 2, "mean": 6.0, "std": 2.0}])
    assert score == pytest.approx((3.5, (35 / 4) ** 0.5))


def test_the_score_table_has_shares_and_the_memory_of_the_paper(main_data):
    section = score_table(read_groups(main_data))
    tables = {table.title: {cells[0]: cells[1:] for cells in table.rows} for table in section.tables}
    assert tables["Share of what single-task DQNs reach"]["RePR"] == ("0.80", "0.90 [0.65, 1.15] (3 seeds)")
    assert tables["Share of what single-task DQNs reach"]["DGDMN"] == ("0.49", "–")
    assert tables["Memory"]["reh"] == ("7.063", "7.063", "7,062,773,448", "yes")
    assert tables["Memory"]["ewc"][:2] == ("0.042", "0.041")
    assert [cells[-1] for name, cells in tables["Memory"].items() if name != "ewc"] == ["yes"] * 8
    assert section.verdict == "arcade-3: 3 confirmed, 0 refuted, 5 open of 8 claims."


def test_conditions_of_our_own_stand_below_the_papers(main_data):
    write(main_data, rows_of("RePR-plus", 20, [0.95] * 3), name="plus")
    shares = next(table for table in score_table(read_groups(main_data)).tables if table.title.startswith("Share"))
    assert shares.rows[-1] == ("RePR-plus", "–", "0.95 (1 seed)")


def test_shares_on_atari_are_computed_as_in_the_paper(tmp_path):
    games = ("ALE/RoadRunner-v5", "ALE/Boxing-v5", "ALE/Jamesbond-v5")
    rows = rows_of("RePR", 0, [0.5, 0.5, 1.0], sequence="atari-3", tasks=games)
    rows += [row("single", 0, 1.0, sequence="atari-3", task=g, after_task=g, num_tasks=1, mean=40.0) for g in games]
    write(tmp_path / "data", rows, preset="paper", fraction=0.1)
    groups = read_groups(tmp_path / "data")
    assert groups[0].shares("RePR") == pytest.approx({0: (0.25 + 0.25 + 0.5) / 3})
    (own,) = [table for table in score_table(groups).tables if table.title.startswith("Scores, the paper's / ours")]
    cells = {name: rest for name, *rest in own.rows}
    assert cells["RePR"] == [
        "22042 ± 5375 / 10 ± 2",
        "82 ± 12 / 10 ± 2",
        "468 ± 155 / 20 ± 2",
        "not comparable: run at a fraction of the budget",
    ]
    assert cells["PR"][-1] == "not run yet"


def test_the_best_point_of_a_grid_is_chosen(tmp_path):
    rows = [row("teacher", 20, 0.0, kind="teacher", task=task, after_task=task, min=0.0, max=20.0) for task in TASKS]
    rows += rows_of("ewc lambda=50", 20, [0.2, 0.2, 0.8]) + rows_of("ewc lambda=300", 20, [0.8, 0.8, 0.2])
    write(tmp_path / "data", rows)
    section = grids(read_groups(tmp_path / "data"))
    assert [cells[-2:] for cells in section.tables[0].rows] == [
        ("0.40 (1 seed)", ""),
        ("0.60 (1 seed)", "chosen, the paper's"),
    ]
    assert "ewc lambda=300 is best (the paper's own point; normalised average 0.60)" in section.verdict


def test_another_best_point_is_compared_with_the_papers_seed_by_seed(tmp_path):
    seeds = (20, 21)
    rows = [
        row("teacher", seed, 0.0, kind="teacher", task=task, after_task=task, min=0.0, max=20.0)
        for seed in seeds
        for task in TASKS
    ]
    for seed, level in zip(seeds, (0.6, 0.8), strict=True):
        rows += rows_of("ewc lambda=50", seed, [level] * 3) + rows_of("ewc lambda=300", seed, [0.4] * 3)
    write(tmp_path / "data", rows)
    verdict = grids(read_groups(tmp_path / "data")).verdict
    # Differences of 0.2 and 0.4: 0.3 +/- 12.71 * 0.1
    assert "ewc lambda=50 is best (+0.30 [-0.97, 1.57] (2 seeds) compared with the paper's ewc lambda=300" in verdict


def test_students_are_shares_of_their_teachers(tmp_path):
    rows = rows_of("RePR", 20, [1.0] * 3)
    for items, alone, together in (("real", 1.0, 0.9), ("generated", 0.6, 0.2)):
        for task in TASKS:
            rows.append(row(items, 20, alone, kind="student", after_task=task, task=task, num_tasks=1))
            rows.append(row(items, 20, together, kind="student", after_task="+".join(TASKS), task=task, num_tasks=3))
    write(tmp_path / "data", rows)
    section = scratch(read_groups(tmp_path / "data"))
    assert section.tables[0].rows[-1] == ("gan_3T", "747 ± 739", "-6 ± 12", "142 ± 100", "0.09")
    assert section.tables[1].rows[-1] == ("generated, all 3", *["0.20 (1 seed)"] * 3, "0.20")
    assert "0.60 of the teacher's score and real ones 1.00, less, as in the paper" in section.verdict
    assert "0.20 against 0.90, the same collapse as in the paper" in section.verdict


def test_overlap_in_either_order(tmp_path):
    rows = rows_of("RePR", 20, [1.0] * 3)
    for condition in ("RePR", "RePR-rev"):
        for first, second, value in (("catch", "dodge", 0.5), ("catch", "shooter", 0.9), ("dodge", "shooter", 0.4)):
            rows.append(row(condition, 20, 0.0, kind="overlap", after_task=first, task=second, mean=value))
    write(tmp_path / "data", rows)
    section = fisher_overlap(read_groups(tmp_path / "data"))
    assert section.tables[1].rows[0] == ("RePR", "0.500 (1 seed)", "0.900 (1 seed)", "0.400 (1 seed)")
    assert "Catch and Shooter overlap most in either order" in section.verdict
    assert "values are 0.40 to 0.90 (paper: 0.11 to 0.75)" in section.verdict


def test_overlap_in_one_order_says_so(tmp_path):
    pairs = {("catch", "dodge"): 0.2, ("catch", "shooter"): 0.4, ("dodge", "shooter"): 0.3}
    rows = [
        row("RePR", 20, 0.0, kind="overlap", after_task=first, task=second, mean=value)
        for (first, second), value in pairs.items()
    ]
    write(tmp_path / "data", rows)
    section = fisher_overlap(read_groups(tmp_path / "data"))
    assert "Catch and Shooter overlap most, in the one order that has been run" in section.verdict


def test_alphas_of_two_tasks(tmp_path):
    two, rows = ("catch", "dodge"), []
    for alpha, pr in ((0.65, 0.4), (0.95, 1.0)):
        rows += rows_of(f"PR alpha={alpha}", 20, [1.0, pr], sequence="catch,dodge", tasks=two)
        rows += rows_of(f"RePR alpha={alpha}", 20, [0.5, 1.0], sequence="catch,dodge", tasks=two)
    write(tmp_path / "data", rows)
    section = lscale(read_groups(tmp_path / "data"))
    assert section.tables[1].rows[0] == ("0.65", *(f"{x} (1 seed)" for x in ("1.00", "0.40", "0.50", "1.00")))
    assert "PR learns Dodge to 0.40 and RePR to 1.00, as in the paper worse without a second memory" in section.verdict


def test_extended_and_policy_conditions(tmp_path):
    rows = rows_of("reh-extend", 20, [0.9] * 3) + rows_of("RePR-extend", 20, [0.5] * 3)
    for name, level in (("ewc", 0.9), ("online-ewc", 0.95), ("RePR", 0.92)):
        rows += rows_of(f"{name}-policy-short", 20, [level] * 3)
    write(tmp_path / "data", rows)
    groups = read_groups(tmp_path / "data")
    assert "RePR-extend is the lowest, by 0.40, as in the paper" in extend_results(groups).verdict
    assert extend_results(groups).tables[1].rows[1] == ("RePR-extend", "1.00 → 0.50", "1.00 → 0.50", "0.50 → 0.50")
    assert "within 0.10 of each other on average, as in the paper" in policy_only_results(groups).verdict


def test_runs_with_changed_settings_are_columns_where_they_have_conditions_of_their_own(tmp_path):
    runs = (("a", {}, "ewc"), ("b", {"gan.steps": 9}, "ewc"), ("c", {"gan.steps": 7}, "reh"))
    for name, overrides, condition in runs:
        write(tmp_path / "data", rows_of(condition, 20, [0.5] * 3), name=name, overrides=overrides)
    assert [group.overrides for group in reported(read_groups(tmp_path / "data"))] == ["", "--gan.steps 7"]


def test_a_group_that_varies_one_setting_is_evidence_for_the_other(tmp_path):
    for name, overrides, ewc in (("a", {}, 0.7), ("b", {"long-term.agent-steps": 120000}, 0.3)):
        rows = [row_ for seed in (20, 21) for row_ in rows_of("ewc", seed, [ewc] * 3)]
        write(tmp_path / "data", rows, name=name, overrides=overrides)
    everything = read_groups(tmp_path / "data")
    assert [group.overrides for group in reported(everything)] == [""]
    first, second = explanations(reported(everything), everything)
    assert "differ from the paper by more than 0.20: `ewc` 0.70 (paper: 0.08)." in first
    assert second == (
        "- **With `--long-term.agent-steps 120000`** (otherwise the same): `ewc` 0.70 [0.70, 0.70] (2 seeds) becomes "
        "0.30 [0.30, 0.30] (2 seeds)."
    )


def test_no_lambda_keeps_and_learns(tmp_path):
    rows = rows_of("ewc", 20, [0.6] * 3)
    rows += rows_of("ewc lambda=50", 20, [0.2, 0.5, 1.0]) + rows_of("ewc lambda=400", 20, [0.9, 0.5, 0.1])
    write(tmp_path / "data", rows)
    groups = read_groups(tmp_path / "data")
    (text,) = [part for part in explanations(groups, groups) if "The grid" in part]
    assert "kept of Catch goes from 0.20 to 0.90, and what is learnt of Shooter from 1.00 to 0.10" in text
    assert "no lambda has all games above 0.90" in text


def test_curves_of_the_first_task(tmp_path):
    rows = rows_of("no-reh", 20, [0.0, 0.0, 1.0])
    for step, level in ((40_000, 0.5), (70_000, 0.1)):
        where = {"num_tasks": 2, "after_task": "dodge", "task": "catch", "agent_steps": step}
        rows.append(row("no-reh", 20, level, kind="periodic", **where))
    write(tmp_path / "data", rows)
    (table,) = decline(read_groups(tmp_path / "data"))
    assert (table.header, table.rows) == (("condition", "40,000", "70,000"), [("no-reh", "0.50", "0.10")])


# -- the queue and the page


def test_the_queue_knows_what_is_done_and_what_it_cost(tmp_path):
    write(tmp_path, rows_of("RePR", 20, [1.0] * 3), studies=[study("main", 20), study("main", 21, missing=3)])
    (tmp_path / FILE).write_text(json.dumps({"format": 1, "entries": [ENTRY]}))
    (row_,) = progress(read_queue(tmp_path), [source for source, _ in read_sources(tmp_path)])
    assert (row_.finished, row_.left) == ({20: 10.0}, [21, 22])
    assert row_.minutes_left == 20.0  # as long as the finished seed took
    assert row_.entry.command_for(row_.left) == "reaper experiment main --tasks arcade-3 --seeds 21 22"
    write(tmp_path, [], name="b", studies=[study("main", 22)], overrides={"long-term.alpha": 0.5})
    (same,) = progress(read_queue(tmp_path), [source for source, _ in read_sources(tmp_path)])
    assert same.left == [21, 22]  # run with another setting, seed 22 is another study
    (alone,) = progress(read_queue(tmp_path), [])
    assert alone.minutes_left == 3 * 26


def test_the_page_says_what_has_not_been_run_and_what_it_would_cost(main_data):
    entry = {**ENTRY, "study": "overlap", "minutes": 11}
    (main_data / FILE).write_text(json.dumps({"format": 1, "entries": [ENTRY, entry]}))
    page = reproduction_page(main_data)
    overlap = page[page.index("## Table F-over") : page.index("## Table lscale")]
    assert "**Verdict.** Not run yet." in overlap
    assert (
        "- Not run yet: arcade-3, preset arcade, fraction 1, seeds 20, 21 and 22; predicted 33 minutes (one core)."
        in overlap
    )
    assert "reaper experiment main --tasks arcade-3 --seeds 20 21 22\n" in page
    assert "| arcade-3 | arcade | 1 | 20, 21, 22 | 2026-01-02 | abc | 30 min | cpu, abacus |" in page

"""The Ray engine: the same artefacts as the local engine, byte for byte, also when a node dies during a stage."""

import sys
from collections import Counter

import pytest
from conftest import plan_tiny, run_plan, run_tiny
from curves import read_curves

from reaper.cli.main import main
from reaper.errors import Diverged, Stopped, UserError
from reaper.storage.store import Store
from reaper.study.conditions import MAIN

# Long enough to kill a node in the middle of a stage that has written checkpoints.
LONGER = {"short-term.agent-steps": 960, "long-term.agent-steps": 480}

SHORTER = {
    "short-term.agent-steps": 80,
    "long-term.agent-steps": 80,
    "gan.steps": 2,
    "generator.pseudo-items": 12,
    "rehearsal.capacity": 12,
    "evaluation.episodes": 1,
}


def artefacts(out):
    return {
        str(path.relative_to(out)): path.read_bytes()
        for folder in ("stages", "runs")
        for path in sorted((out / folder).rglob("*"))
        if path.is_file() and path.name != "provenance.json"
    }


def two_workers(conditions, tasks, seeds=(0,), overrides=None, **options):
    options = {"workers": 2, "checkpoint_every": "24", **options}
    return plan_tiny(conditions, tasks, seeds=seeds, overrides=overrides, **options)


class Events(list):
    """A listener that records all events."""

    def __call__(self, stage, event):
        self.append((stage, event))

    def kinds(self, name):
        return Counter(stage.kind for stage, event in self if event.name == name)

    def in_the_middle_of(self, kind):
        return any(
            stage.kind == kind and 0 < event.done < event.total for stage, event in self if event.name == "progress"
        )

    def texts(self):
        return [event.text for _, event in self if event.name == "remark"]


@pytest.fixture
def cluster():
    """Two nodes with one core each, on this machine; the driver is on the first."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    cluster.second = cluster.add_node(**size)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


class KillingANode(Events):
    """Kills the second node once, while a stage with a checkpoint runs on it."""

    def __init__(self, cluster, out):
        self.cluster, self.out, self.there, self.killed = cluster, out, set(), None

    def __call__(self, stage, event):
        super().__call__(stage, event)
        if event.name == "started" and event.node == self.cluster.second.node_id:
            self.there.add(stage.digest)
        running = stage.digest in self.there and not Store(self.out).has(stage.digest)
        if running and not self.killed and list(self.out.glob(f"unfinished/{stage.digest}/[0-9]*")):
            self.killed = stage.title
            self.cluster.remove_node(self.cluster.second, allow_graceful=False)


@pytest.mark.long
def test_a_study_survives_a_node_that_dies_during_a_stage(tmp_path, cluster):
    conditions, tasks = ["RePR", "no-reh"], "catch,dodge"
    run_plan(two_workers(conditions, tasks, overrides=LONGER), tmp_path / "local", lambda stage, event: None)
    listen = KillingANode(cluster, tmp_path / "ray")
    study = two_workers(conditions, tasks, overrides=LONGER, engine="ray", engine_options={"address": cluster.address})
    run_plan(study, tmp_path / "ray", listen)
    assert listen.killed
    assert any("its worker was lost" in text for text in listen.texts())
    expected, found = artefacts(tmp_path / "local"), artefacts(tmp_path / "ray")
    assert set(expected) == set(found)
    assert [name for name in expected if expected[name] != found[name]] == []
    assert listen.kinds("started") == listen.kinds("finished") == Counter(stage.kind for stage in study.stages)
    # A point that the dead node had not sent yet may be missing; none is duplicated or misplaced.
    logged = read_curves(tmp_path / "ray")
    for place, curves in read_curves(tmp_path / "local").items():
        for tag, points in curves.items():
            assert set(logged[place].get(tag, ())) <= set(points)
            if tag.startswith("evaluation/"):
                assert max(logged[place][tag]) == max(points)


@pytest.mark.long
def test_a_stage_that_fails_takes_only_its_own_chain_with_it(tmp_path, cluster):
    diverging = {"gan.learning-rate": 1e30}
    study = two_workers(
        ["RePR", "no-reh"],
        "catch,dodge",
        overrides=diverging,
        engine="ray",
        engine_options={"address": cluster.address},
    )
    with pytest.raises(Diverged, match="generator"):
        run_plan(study, tmp_path / "ray", lambda stage, event: None)
    finished = {stage.title for stage in study.stages if Store(tmp_path / "ray").has(stage.digest)}
    assert finished == {stage.title for stage in study.stages if not stage.title.startswith("RePR")}


@pytest.mark.long
def test_nine_conditions_with_fetched_files_and_a_stop(tmp_path, cluster, monkeypatch):
    """Teachers are trained once for all conditions; a stopped study fetches its checkpoints and resumes from them."""
    tasks, long_enough_to_stop = "catch,dodge,frog", {"short-term.agent-steps": 2400}
    local = two_workers(MAIN, tasks, (0, 1), long_enough_to_stop)
    run_plan(local, tmp_path / "local", lambda stage, event: None)
    study = two_workers(
        MAIN,
        tasks,
        (0, 1),
        long_enough_to_stop,
        engine="ray",
        engine_options={"address": cluster.address, "store": "fetch"},
    )
    listen, out = Events(), tmp_path / "ray"
    monkeypatch.setattr("reaper.engines.signals.Stop.__call__", lambda stop: listen.in_the_middle_of("short-term"))
    with pytest.raises(Stopped):
        run_plan(study, out, listen)
    monkeypatch.undo()
    assert list(out.glob("unfinished/*/[0-9]*/manifest.json"))
    run_plan(study, out, listen)
    assert listen.kinds("finished")["short-term"] == 3 * 2
    assert listen.kinds("finished") == Counter(stage.kind for stage in study.stages)
    assert artefacts(tmp_path / "local") == artefacts(out)
    assert not list(out.glob("unfinished/*/*"))


@pytest.mark.long
def test_the_local_engine_trains_each_teacher_once(tmp_path):
    listen = Events()
    run_plan(plan_tiny(MAIN, "arcade-3", seeds=(0, 1), overrides=SHORTER, workers=2), tmp_path / "run", listen)
    assert listen.kinds("started")["short-term"] == 3 * 2


# -- without Ray


def test_without_ray_the_error_names_the_pip_command(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [name for name in sys.modules if name.startswith("reaper.engines.ray")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["run", "RePR", "--engine", "ray", "--out", str(tmp_path / "run")]) == 2
    error = capfd.readouterr().err.strip()
    assert "pip install 'reaper-rl[ray]'" in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--engine rya", "unknown engine 'rya'; did you mean 'ray'?"),
        ("--ray.address auto", "--ray.address is for --engine ray"),
        ("--ray.store fetch", "--ray.store is for --engine ray"),
        ("--engine ray --ray.adress auto", "unknown option of engine ray 'adress'; did you mean 'address'?"),
        ("--local.store fetch", "engine local has no options"),
        ("--engine ray --ray.store fetched", "did you mean 'fetch'?"),
        ("--engine ray --ray.gpus-per-stage 1.5", "--ray.gpus-per-stage must be"),
        ("--engine ray --ray.address ray://here:1", "run reaper on a node of the cluster"),
        ("--engine ray --ray.store fetch --share", "leave out --share"),
    ],
)
def test_options_that_do_not_go_together_are_a_one_line_error(flags, message, tmp_path, capfd):
    assert main(["run", "RePR", "--out", str(tmp_path / "run"), *flags.split()]) == 2
    error = capfd.readouterr().err.strip()
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_no_cluster_at_the_address_is_a_one_line_error(tmp_path, capfd):
    pytest.importorskip("ray")
    words = ["run", "no-reh", "--tasks", "catch", "--engine", "ray", "--ray.address", "127.0.0.1:1"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert "no Ray cluster at 127.0.0.1:1" in capfd.readouterr().err


def test_a_worker_that_does_not_see_the_store_reports_it(tmp_path):
    pytest.importorskip("ray")
    from reaper.engines.ray_worker import Order, _open_shared
    from reaper.study.stage_run import StageResources
    from reaper.study.stages import Stage

    for name, header in (("nowhere", {}), ("other", {"settings": "others"})):
        if header:
            run_tiny(tmp_path / name, ["single"], tasks="catch")
        order = Order(
            stage=Stage({}, ""),
            resources=StageResources(),
            threads=1,
            folder=str(tmp_path / name),
            header=header,
            study="",
            shared=False,
        )
        with pytest.raises(UserError, match=r"does not see this run in .*--ray.store fetch"):
            _open_shared(order)

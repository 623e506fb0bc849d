"""Any damage to a file is found by `reaper verify` and on use, reported in one line, and never used."""

import json
import shutil

import pytest
from conftest import run_args, run_tiny
from damaging import DAMAGES, command, contents, flipped, refused, results, seeded

from reaper.cli.main import main
from reaper.storage.records import ROLES
from reaper.storage.store import Store
from reaper.storage.verify import verify

READ_BY_REPORT = ("manifest.json", "provenance.json", "memory.json")


def counterparts(out):
    """Every file of the run with seed 0 and its counterpart of seed 1."""
    first, second = Store.open(out).runs()
    digests = [(a, b) for role in ROLES for a, b in zip(first.of_role(role), second.of_role(role), strict=True)]
    pairs = [(out / "runs" / f"{first.name}.json", out / "runs" / f"{second.name}.json")]
    for mine, other in [*digests, (first.random, second.random)]:
        folder = out / "stages" / mine
        pairs += [(path, out / "stages" / other / path.name) for path in sorted(folder.iterdir())]
    return pairs


def uses(out, path):
    """The commands that read a file."""
    yield run_args(out, "DGDMN", seeds=(0, 1))
    if path.parent == out or path.parent.name == "runs" or path.name in READ_BY_REPORT:
        yield ["report", out]
    memories = {digest for run in Store(out).runs() for digest in run.memories} if path.parent.name != "runs" else {}
    if path.parent.name in memories and path.stem in ("manifest", "agent", "retained", "memory"):
        yield ["play", path.parent, "--task", "catch"]
        yield ["play", out, "--condition", "DGDMN", "--seed", "0", "--task", "catch"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_file_is_found_and_never_used(two_seeds, damage, capfd):
    kinds = set()
    for path, other in [*counterparts(two_seeds), (two_seeds / "reaper.json", None)]:
        if damage == "swapped" and other is None:
            continue  # runs with the same settings have equal headers
        intact, commands = path.read_bytes(), list(uses(two_seeds, path))
        DAMAGES[damage](path, other, seeded(damage, path.name))
        if path.exists() and path.read_bytes() == intact:
            continue  # equal in both runs
        try:
            kinds.add(path.name if path.parent.name != "runs" else "record")
            before = contents(two_seeds)
            assert main(["verify", str(two_seeds)]) == 1
            output = capfd.readouterr().out
            assert str(path.relative_to(two_seeds).parent) in output or path.name in output
            if damage == "removed" and path.parent.name == "runs":
                commands = []  # the run writes it again, and a report covers the runs whose records exist
            for words in commands:
                refused(capfd, 2, *words)
            assert contents(two_seeds) == before
        finally:
            path.write_bytes(intact)
    assert {"manifest.json", "provenance.json", "agent.safetensors", "generator.safetensors", "rows.json"} <= kinds
    assert main(["verify", str(two_seeds)]) == 0


@pytest.mark.long
def test_flipped_bits_are_found(two_seeds):
    for path, _ in [*counterparts(two_seeds), (two_seeds / "reaper.json", None)]:
        intact, rng = path.read_bytes(), seeded("many", path.name)
        for _ in range(100):
            flipped(path, None, rng)
            assert [problem for problem in verify(two_seeds) if problem.damaged], path
            path.write_bytes(intact)


def test_a_stage_under_another_name_is_found(two_seeds, tmp_path, capfd):
    out = tmp_path / "out"
    shutil.copytree(two_seeds, out)
    first, second = Store.open(out).runs()
    a, b = out / "stages" / first.teachers[0], out / "stages" / second.teachers[0]
    a.rename(tmp_path / "moved")
    b.rename(a)
    (tmp_path / "moved").rename(b)
    assert len([problem for problem in verify(out) if problem.damaged]) == 2
    assert "holds another stage" in refused(capfd, 2, *run_args(out, "DGDMN"))


def test_verify_reports_how_to_recreate_damaged_stages(tiny_run, tmp_path, capfd):
    out = tmp_path / "out"
    shutil.copytree(tiny_run, out)
    run = next(run for run in Store.open(out).runs() if run.condition_name == "RePR")
    (out / "stages" / run.memories[1] / "agent.safetensors").write_bytes(b"")
    (out / "stages" / run.memories[0] / "manifest.json").unlink()
    (out / "stages" / run.teachers[2] / "rows.json").unlink()
    shutil.rmtree(out / "stages" / run.teachers[1])
    (out / "stages" / ".abc.part").mkdir()
    assert main(["verify", str(out), "--json"]) == 1
    problems = json.loads(capfd.readouterr().out)["problems"]
    found = {problem["path"].rpartition("/")[2]: problem for problem in problems}
    second = found[run.memories[1]]["remedy"]
    assert "run again from" in second
    assert "'learn dodge (seed 0)' (missing, run first)" in second
    assert "'RePR: consolidate catch (seed 0)' (damaged, too)" in second
    assert "by `reaper run RePR no-reh --tasks catch,dodge,frog --training.num-envs 4" in second
    assert second.endswith(f"--out {out}`")
    assert "from 'learn catch (seed 0)' (intact)" in found[run.memories[0]]["remedy"]
    assert "run again from scratch" in found[run.teachers[2]]["remedy"]
    assert "is missing" in found[run.teachers[1]]["what"]
    assert (found[".abc.part"]["damaged"], found[".abc.part"]["harmless"]) == (False, True)


def test_what_is_set_aside_is_recreated_with_the_same_bytes(two_seeds, tmp_path, capfd):
    out = tmp_path / "out"
    shutil.copytree(two_seeds, out)
    run = Store.open(out).runs()[0]
    damaged_files = [f"stages/{run.teachers[0]}/agent.safetensors", f"runs/{run.name}.json", "reaper.json"]
    for name in damaged_files:
        flipped(out / name, None, seeded(name))
    damaged = contents(out)
    assert main(["verify", str(out), "--set-aside"]) == 1
    for name in damaged_files:
        assert (out / "damaged" / name).read_bytes() == damaged[name]
    assert command(capfd, *run_args(out, "DGDMN", seeds=(0, 1)))[0] == 0
    assert results(out) | {f"runs/{run.name}.json": b""} == results(two_seeds) | {f"runs/{run.name}.json": b""}
    assert main(["verify", str(out)]) == 0


# -- checkpoints


def checkpoints(out):
    return sorted(out.glob("unfinished/*/[0-9]*"), key=lambda path: int(path.name))


@pytest.mark.parametrize("damage", ["truncated", "emptied", "flipped", "removed"])
def test_a_stage_never_resumes_from_damaged_checkpoints(half_finished, tmp_path, damage, capfd):
    out = tmp_path / "out"
    shutil.copytree(half_finished, out)
    older, newest = checkpoints(out)
    for name in sorted(path.name for path in newest.iterdir()):
        whole = {folder: (folder / name).read_bytes() for folder in (older, newest)}
        DAMAGES[damage](older / name, None, seeded(damage, name))
        (problem,) = verify(out)
        assert (problem.path, problem.damaged, problem.harmless) == (older, True, True)
        DAMAGES[damage](newest / name, None, seeded(damage, name, "newest"))
        before = contents(out)
        assert [problem.harmless for problem in verify(out)] == [False, False]
        words = run_args(out, "RePR", tasks="catch,dodge", every="24")
        assert "no intact checkpoint" in refused(capfd, 2, *words)
        assert contents(out) == before
        for folder, data in whole.items():
            (folder / name).write_bytes(data)


def test_a_run_resumes_from_an_older_checkpoint(half_finished, tmp_path):
    """And, once both are set aside, restarts the stage: with the same bytes each time."""
    ends = []
    for damaged_files in ([], [1], [0, 1]):
        out = tmp_path / f"out-{len(damaged_files)}"
        shutil.copytree(half_finished, out)
        for place in damaged_files:
            flipped(checkpoints(out)[place] / "tensors.safetensors", None, seeded("older"))
        if len(damaged_files) == 2:
            assert main(["verify", str(out), "--set-aside"]) == 1
            assert len(contents(out / "damaged")) == 8
        run_tiny(out, ["RePR"], "catch,dodge", checkpoint_every="24")
        assert not list(out.glob("unfinished/*"))
        ends.append(results(out))
    assert ends[0] == ends[1] == ends[2]


def test_verify_refuses_other_folders(tmp_path, capfd):
    assert "is not a run" in refused(capfd, 2, "verify", tmp_path / "nowhere")

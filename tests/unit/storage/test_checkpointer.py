"""Checkpoints: when they are due, what they hold, what they cost, and what is refused."""

import time
from dataclasses import dataclass, field

import pytest
import torch

from reaper.errors import DamagedArtefact, Diverged, Stopped, UserError
from reaper.storage.checkpoints import CheckpointDir, Checkpointer, Interval, check_finite

DIGEST = "ab" * 10


@dataclass
class Part:
    """A tensor and a number; counts how often it was asked for its state."""

    tensor: torch.Tensor = field(default_factory=lambda: torch.zeros(3))
    number: int = 0
    asked: int = 0

    def state(self):
        self.asked += 1
        return {"tensor": self.tensor, "number": self.number}

    def restore(self, state):
        self.tensor, self.number = state["tensor"], state["number"]


def new(tmp_path, every=None, **options):
    return Checkpointer(CheckpointDir(tmp_path / "stage", DIGEST), every, **options)


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("30s", Interval(30.0)),
        ("10m", Interval(600.0)),
        ("1.5 h", Interval(5400.0)),
        (" 50000 ", Interval(None, 50_000)),
        ("2.0", Interval(None, 2)),
    ],
)
def test_intervals_are_times_or_work(text, interval):
    assert Interval.parse(text) == interval
    assert Interval.parse(str(interval)) == interval


@pytest.mark.parametrize("text", ["", "0", "0s", "-5", "2.5", "10d", "m", "1e3"])
def test_other_intervals_are_refused(text):
    with pytest.raises(UserError, match="--checkpoint-every takes"):
        Interval.parse(text)


def test_a_checkpoint_is_due_after_so_much_work(tmp_path):
    checkpointer, part = new(tmp_path, Interval(None, 10)), Part()
    checkpointer.register("part", part)
    saved = []
    for work in (4, 5, 1, 9, 1, 25, 0):
        checkpointer.maybe_save(work)
        checkpointer.close()
        saved.append(checkpointer.saved)
    assert saved == [0, 0, 1, 1, 2, 3, 3]
    assert part.asked == 3


def test_a_checkpoint_is_due_after_so_many_seconds(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    checkpointer = new(tmp_path, Interval(60.0))
    checkpointer.register("part", Part())
    saved = []
    for seconds in (59.5, 0.5, 59.0, 1.0, 0.0):
        now[0] += seconds
        checkpointer.maybe_save(1000)
        checkpointer.close()
        saved.append(checkpointer.saved)
    assert saved == [0, 1, 1, 2, 2]


def test_what_was_saved_is_restored_part_by_part(tmp_path):
    first = new(tmp_path)
    first.register("a", Part(torch.tensor([1.0, 2.0]), 7))
    first.register("b", Part(torch.arange(4), 8))
    first.save()
    first.close()
    a, b, other = Part(), Part(), Part(number=5)
    second = new(tmp_path)
    second.register("b", b)
    second.register("a", a)
    second.register("new", other)
    assert (a.tensor.tolist(), a.number, b.tensor.tolist(), b.number) == ([1.0, 2.0], 7, [0, 1, 2, 3], 8)
    assert other.number == 5  # the checkpoint has nothing of it


def test_a_checkpoint_holds_the_state_of_its_moment(tmp_path):
    """Training continues while the file is written, and tensors may change their shape."""
    checkpointer, part = new(tmp_path), Part(torch.ones(3), 1)
    checkpointer.register("part", part)
    checkpointer.save()
    part.tensor.fill_(9.0)
    checkpointer.close()
    assert CheckpointDir(tmp_path / "stage", DIGEST).newest()[0]["part"]["tensor"].tolist() == [1.0] * 3
    part.tensor = torch.arange(5)
    checkpointer.save()
    checkpointer.close()
    assert CheckpointDir(tmp_path / "stage", DIGEST).newest()[0]["part"]["tensor"].tolist() == [0, 1, 2, 3, 4]


def test_the_cost_is_counted(tmp_path):
    checkpointer = new(tmp_path)
    assert checkpointer.cost() == {"written": 0, "stalled_seconds": 0.0, "bytes": 0}
    checkpointer.register("part", Part(torch.zeros(10, dtype=torch.float64)))
    for _ in range(2):
        checkpointer.save()
    checkpointer.close()
    cost = checkpointer.cost()
    assert (cost["written"], cost["bytes"]) == (2, 80)  # the last one: ten numbers of eight bytes
    assert 0 <= cost["stalled_seconds"] < 5


def test_without_a_folder_or_parts_nothing_is_written(tmp_path):
    alone = Checkpointer()
    alone.register("part", Part())
    alone.save()
    empty = new(tmp_path)
    empty.save()
    assert (alone.saved, empty.saved) == (0, 0)


def test_a_stop_saves_and_raises(tmp_path):
    checkpointer = new(tmp_path, Interval(None, 10**9), stop=lambda: True)
    checkpointer.register("part", Part(number=3))
    with pytest.raises(Stopped):
        checkpointer.raise_if_stopped()
    assert checkpointer.saved == 0
    with pytest.raises(Stopped):
        checkpointer.maybe_save(1)
    assert CheckpointDir(tmp_path / "stage", DIGEST).newest()[0]["part"]["number"] == 3
    new(tmp_path).raise_if_stopped()


def test_a_stop_keeps_a_checkpoint_that_has_not_been_restored_whole(tmp_path):
    before = new(tmp_path)
    for name in ("early", "late"):
        before.register(name, Part(number=7))
    before.save()
    before.close()
    resumed = new(tmp_path, stop=lambda: True)
    resumed.register("early", Part())
    with pytest.raises(Stopped):
        resumed.stop_if_requested()
    resumed = new(tmp_path, stop=lambda: True)  # now with all of its parts
    for name in ("early", "late"):
        resumed.register(name, part := Part())
        assert part.number == 7
    with pytest.raises(Stopped):
        resumed.stop_if_requested()
    assert resumed.saved == 1


def test_a_failed_write_is_raised_at_the_next_occasion(tmp_path, monkeypatch):
    def fail(self, tensors, others):
        raise UserError("the disk is full")

    monkeypatch.setattr(CheckpointDir, "write", fail)
    for occasion in ("maybe_save", "close"):
        checkpointer = new(tmp_path)
        checkpointer.register("part", Part())
        checkpointer.save()
        checkpointer._writer.join()
        with pytest.raises(UserError, match="the disk is full"):
            getattr(checkpointer, occasion)()


# -- damage


def saved_twice(tmp_path):
    checkpointer, part = new(tmp_path), Part()
    checkpointer.register("part", part)
    for part.number in (1, 2):
        checkpointer.save()
        checkpointer.close()
    return CheckpointDir(tmp_path / "stage", DIGEST)


def damage(folder, number):
    (file,) = (folder.folder / str(number)).glob("tensors*")
    file.write_bytes(file.read_bytes()[:-1] + b"x")


def test_a_damaged_checkpoint_is_skipped_with_a_remark(tmp_path):
    folder, remarks = saved_twice(tmp_path), []
    damage(folder, 2)
    part = Part()
    checkpointer = new(tmp_path, remark=remarks.append)
    checkpointer.register("part", part)
    assert part.number == 1
    assert len(remarks) == 1
    assert remarks[0].startswith("skipped a damaged checkpoint: ")
    damage(folder, 1)
    with pytest.raises(DamagedArtefact, match="holds no intact checkpoint"):
        new(tmp_path)


def test_no_remark_without_damage(tmp_path):
    remarks = []
    new(tmp_path, remark=remarks.append)
    saved_twice(tmp_path)
    new(tmp_path, remark=remarks.append)
    assert remarks == []


def test_the_checkpoint_of_another_stage_or_number_is_refused(tmp_path):
    folder = saved_twice(tmp_path)
    assert folder.numbers() == [1, 2]
    with pytest.raises(DamagedArtefact, match="the checkpoint of another stage"):
        CheckpointDir(folder.folder, "cd" * 10).open(1)
    (folder.folder / "2").rename(folder.folder / "5")
    with pytest.raises(DamagedArtefact, match="the checkpoint of another stage"):
        folder.open(5)


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    folder = saved_twice(tmp_path)
    (folder.folder / ".3.99.part").mkdir()
    new(tmp_path)
    assert sorted(path.name for path in folder.folder.iterdir()) == ["1", "2"]


# -- divergence


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_neither_saved_nor_ignored(tmp_path, value):
    checkpointer = new(tmp_path)
    checkpointer.register("part", Part(torch.tensor([1.0, value])))
    with pytest.raises(Diverged, match="no longer finite"):
        checkpointer.save()
    with pytest.raises(Diverged, match=r"the loss of learning became .* at step 3"):
        check_finite(value, "learning", "step 3")
    check_finite(1e30, "learning", "step 3")
    assert checkpointer.folder.numbers() == []

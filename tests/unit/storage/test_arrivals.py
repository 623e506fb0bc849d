"""What arrives from another machine replaces damage and older checkpoints, and nothing else."""

import pytest
from small_store import MEMORY, TEACHER, make, spoil

from reaper.errors import DamagedArtefact
from reaper.storage.checkpoints import CheckpointDir
from reaper.storage.transfer import NO_CHECKPOINT, pack, pack_checkpoint, unpack_checkpoint, unpack_stage


def test_a_stage_that_arrives_replaces_damage_only_and_ends_its_checkpoints(tmp_path):
    sender, receiver = make(tmp_path / "from"), make(tmp_path / "to", stages=(TEACHER,))
    files = pack(sender.path_of(TEACHER.digest))
    CheckpointDir(receiver.unfinished(TEACHER.digest), TEACHER.digest).write({}, {})
    before = (receiver.path_of(TEACHER.digest) / "manifest.json").stat().st_ino
    unpack_stage(files, receiver, TEACHER.digest)
    assert (receiver.path_of(TEACHER.digest) / "manifest.json").stat().st_ino == before, "it was intact"
    assert not receiver.unfinished(TEACHER.digest).exists()
    spoil(receiver, TEACHER)
    unpack_stage(files, receiver, TEACHER.digest)
    receiver.stage(TEACHER.digest).check()
    spoil(sender, MEMORY)
    with pytest.raises(DamagedArtefact):
        pack(sender.path_of(MEMORY.digest))


def test_checkpoints_that_arrive_are_newer_or_left_alone(tmp_path):
    sender, receiver = make(tmp_path / "from"), make(tmp_path / "to")
    digest = "0" * 20
    assert pack_checkpoint(sender, digest) == NO_CHECKPOINT
    unpack_checkpoint(NO_CHECKPOINT, receiver, digest)
    assert not receiver.unfinished(digest).exists()
    ours, theirs = (CheckpointDir(each.unfinished(digest), digest) for each in (sender, receiver))
    ours.write({}, {"from": "ours"})
    unpack_checkpoint(pack_checkpoint(sender, digest), receiver, digest)
    assert theirs.newest()[0] == {"from": "ours"}
    theirs.write({}, {"from": "theirs"})
    ours.write({}, {"from": "ours"})
    unpack_checkpoint(pack_checkpoint(sender, digest), receiver, digest)
    assert (theirs.numbers(), theirs.newest()[0]) == ([1, 2], {"from": "theirs"})
    with pytest.raises(DamagedArtefact, match="was sent something else than"):
        unpack_checkpoint((3, pack_checkpoint(sender, digest)[1]), receiver, "1" * 20)

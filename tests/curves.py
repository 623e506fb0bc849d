"""Reads TensorBoard curves back and compares them."""

from reaper.monitoring.event_files import PATTERN, read_events


def read_curves(out):
    """Folder -> curve -> step -> value (for an image its bytes); a point that occurs twice is an error."""
    found = {}
    for folder in sorted((out / "tensorboard").glob("*/*")):
        (path,) = folder.glob(PATTERN)
        curves = found.setdefault(str(folder.relative_to(out)), {})
        first, *events = read_events(path)
        assert first.file_version == "brain.Event:2"
        for event in events:
            for value in event.summary.value:
                points = curves.setdefault(value.tag, {})
                assert event.step > max(points, default=-1), (folder, value.tag, event.step)
                points[event.step] = value.image.encoded_image_string or value.simple_value
    return found


def same_curves(whole, killed):
    """Checks that points beyond a checkpoint, which a resumed run logs again, occur once. Running means restart when a
    run resumes, so their values may differ or be missing, but not their steps."""
    assert set(whole) == set(killed)
    for folder, curves in whole.items():
        for tag, points in curves.items():
            found = killed[folder].get(tag, {})
            if tag in ("training/loss", "training/score") or tag.endswith("per_second"):
                assert set(found) <= set(points), (folder, tag)
            else:
                assert found == points, (folder, tag)

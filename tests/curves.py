"""Reading back what was drawn for TensorBoard."""

from reaper.monitoring.event_files import PATTERN, read_events


def read_curves(out):
    """Folder -> curve -> step -> value (of a picture its bytes); a point that is there twice is an error."""
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
    """What was drawn beyond a checkpoint and then drawn again is there once. Means begin anew where a run goes on, so a
    mean may differ or have nothing to be of, but stands where it would have stood."""
    assert set(whole) == set(killed)
    for place, curves in whole.items():
        for tag, points in curves.items():
            found = killed[place].get(tag, {})
            if tag in ("training/loss", "training/score") or tag.endswith("per_second"):
                assert set(found) <= set(points), (place, tag)
            else:
                assert found == points, (place, tag)

"""Which tests run a line, after some of them were traced again."""

from tests_by_line import TestsByLine


def traced(lines, names):
    seconds, fixtures = [float(len(name)) for name in names], [[] for _ in names]
    parts = {"seconds": seconds, "fixtures": fixtures, "fixture_seconds": {names[0]: 1.0}, "failed": []}
    return TestsByLine({"lines": lines, "names": names, **parts})


def test_tests_that_are_traced_again_replace_their_old_lines():
    old = traced({"m.py": {"1": [0, 1, 2], "2": [1]}}, ["a/one", "b/two", "c/three"])
    newer = traced({"m.py": {"2": [0], "3": [0, 1]}, "n.py": {"1": [1]}}, ["b/new", "b/other"])
    both = old.updated(newer, ["b/"])
    assert both.names == ["a/one", "c/three", "b/new", "b/other"]

    def names(file, *lines):
        return {both.names[test] for test in both.of_lines(file, lines)}

    assert names("m.py", 1) == {"a/one", "c/three"}
    assert names("m.py", 2) == {"b/new"}
    assert names("m.py", 3) == {"b/new", "b/other"}
    assert names("n.py", 1) == {"b/other"}
    assert both.seconds == [5.0, 7.0, 5.0, 7.0]
    assert both.fixture_seconds == {"a/one": 1.0, "b/new": 1.0}

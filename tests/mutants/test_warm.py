"""A mutated function takes the place of the original wherever that is used, unless it ran before."""

import importlib.util
import sys

import pytest
from warm import Called, Imported, functions_in

SOURCE = b"""
import functools

LIMIT = 3


def limited(value):
    return min(value, LIMIT)


class Game:
    best = limited(7)

    def __init__(self):
        super().__init__()
        self.score = 1

    @property
    def twice(self):
        return self.score * 2

    @functools.cache
    def after(self, steps):
        def grow(score):
            return score + steps

        return grow(self.score)
"""


@pytest.fixture
def module(tmp_path):
    """The module, and what ran while it was imported."""
    path = tmp_path / "game.py"
    path.write_bytes(SOURCE)
    spec = importlib.util.spec_from_file_location("game", path)
    assert spec
    assert spec.loader
    found, called = importlib.util.module_from_spec(spec), Called(tmp_path)
    sys.setprofile(called)
    spec.loader.exec_module(found)
    sys.setprofile(None)
    return found, path, Imported(functions_in(tmp_path), called.codes)


def exchanged(module, before, after):
    _, path, imported = module
    assert before in SOURCE
    return imported.exchange(path, SOURCE, SOURCE.replace(before, after))


def test_methods_properties_and_inner_functions_are_exchanged(module):
    game = module[0].Game()
    assert (game.twice, game.after(5)) == (2, 6)
    assert exchanged(module, b"self.score * 2", b"self.score * 9")
    assert exchanged(module, b"score + steps", b"score - steps")
    assert (game.twice, game.after(4)) == (9, -3)
    assert exchanged(module, b"self.score = 1", b"pass")
    assert not hasattr(module[0].Game(), "score")


def test_what_ran_at_import_is_not_exchanged(module):
    assert not exchanged(module, b"min(value, LIMIT)", b"max(value, LIMIT)")
    assert not exchanged(module, b"LIMIT = 3", b"LIMIT = 4")
    assert module[0].Game.best == 3


def test_a_function_that_needs_other_variables_around_it_is_not_exchanged(module):
    assert not exchanged(module, b"super().__init__()", b"pass")

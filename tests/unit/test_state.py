"""The state of checkpointed parts: nested, flattened, cloned."""

import torch

from reaper.randomness import new_rng
from reaper.state import Parts, Rows, clone_state, flatten, unflatten


def test_a_flattened_state_unflattens_to_the_same():
    state = {"a": {"b": torch.ones(2), "c": [1, "x"]}, "d": None}
    tensors, others = flatten(state)
    assert list(tensors) == ["a/b"]
    assert others == {"a/c": [1, "x"], "d": None}
    assert unflatten({**tensors, **others}) == state


def test_a_cloned_state_does_not_change_with_its_source():
    source = {"a": {"b": torch.ones(2)}}
    clone = clone_state(source)
    source["a"]["b"].zero_()
    assert clone["a"]["b"].tolist() == [1.0, 1.0]


class Sampler(Rows):
    def __init__(self, rng):
        super().__init__()
        self.rng = rng


def test_every_generator_among_nested_parts_is_found():
    """A CUDA graph has to register all of them."""
    first, second = new_rng("cpu", 1), new_rng("cpu", 2)
    parts = Parts(first=first, inner=Parts(sampler=Sampler(second)), rows=Rows())
    assert list(parts.rngs()) == [first, second]

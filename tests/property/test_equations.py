"""Invariants of the equations, for any numbers."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reaper.equations import ewc_loss, fisher_overlap, gan_data, min_max_normalise, oewc_loss, pr_loss, repr_loss

torch.set_num_threads(1)
quick = settings(max_examples=60, deadline=None)

numbers = st.floats(-1e3, 1e3, width=32)
importances = st.one_of(st.just(0.0), st.floats(2.0**-20, 2.0**20, width=32))


def fisher_of(values: list[float]) -> dict[str, torch.Tensor]:
    """The numbers as a Fisher diagonal of two tensors; hypothesis chooses numbers, not their positions."""
    half = len(values) // 2
    return {"weight": torch.tensor(values[:half]).reshape(1, -1), "bias": torch.tensor(values[half:])}


def fishers(count: int):
    rows = st.integers(2, 12).flatmap(
        lambda size: st.lists(st.lists(importances, min_size=size, max_size=size), min_size=count, max_size=count)
    )
    return rows.filter(lambda lists: all(any(row) for row in lists)).map(
        lambda lists: [fisher_of(row) for row in lists]
    )


@quick
@given(st.lists(st.tuples(importances, numbers), min_size=1, max_size=10), st.sampled_from([ewc_loss, oewc_loss]))
def test_ewc_is_zero_at_its_anchor_and_flat_there(pairs, loss) -> None:
    fisher = torch.tensor([f for f, _ in pairs])
    anchor = torch.tensor([w for _, w in pairs])
    weights = anchor.clone().requires_grad_()
    penalty = loss([fisher], [weights], [anchor])
    penalty.backward()
    assert penalty.item() == 0
    assert weights.grad is not None
    assert not weights.grad.any()


@quick
@given(st.lists(st.tuples(importances, numbers, numbers), min_size=1, max_size=10))
def test_ewc_is_never_negative(triples) -> None:
    fisher, weights, anchor = (torch.tensor(column) for column in zip(*triples, strict=True))
    assert ewc_loss([fisher], [weights], [anchor]).item() >= 0


@quick
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=16), st.booleans())
def test_alpha_one_is_pure_distillation_and_alpha_zero_pure_retention(pairs, as_tensor) -> None:
    distillation = torch.tensor([new for new, _ in pairs])
    retention = torch.tensor([old for _, old in pairs])
    one, zero = (torch.tensor(1.0), torch.tensor(0.0)) if as_tensor else (1.0, 0.0)
    assert repr_loss(distillation, retention, one).item() == distillation.mean().item()
    assert repr_loss(distillation, retention, zero).item() == retention.mean().item()


@quick
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
def test_the_retention_loss_of_an_unchanged_agent_is_zero(rows) -> None:
    q_values = torch.tensor(rows)
    assert not pr_loss(q_values, q_values.clone()).any()


@quick
@given(st.integers(1, 50), st.integers(1, 20), st.booleans())
def test_share_of_new_items_is_one_over_tasks(tasks, per_task, as_tensor) -> None:
    count = tasks * per_task
    r = (torch.arange(count) + 0.5) / count  # a grid over [0, 1): the expectation, without chance
    chosen = gan_data(torch.ones(count, 1), torch.zeros(count, 1), r, torch.tensor(tasks) if as_tensor else tasks)
    assert int(chosen.sum()) == per_task


@quick
@given(fishers(2))
def test_fisher_overlap_is_symmetric_and_between_zero_and_one(pair) -> None:
    first, second = pair
    overlap = fisher_overlap(first, second).item()
    assert abs(overlap - fisher_overlap(second, first).item()) < 1e-12
    assert -1e-12 <= overlap <= 1 + 1e-12  # nothing is clamped: rounding shows


@quick
@given(fishers(1), st.floats(1e-3, 1e3))
def test_fisher_overlap_with_itself_is_one_whatever_the_scale(single, scale) -> None:
    (fisher,) = single
    scaled = {name: value.double() * scale for name, value in fisher.items()}
    assert abs(fisher_overlap(fisher, scaled).item() - 1) < 1e-12


@quick
@given(st.lists(st.floats(0, 2.0**100, width=32), min_size=2, max_size=12))
def test_min_max_is_between_zero_and_one_and_reaches_both(values) -> None:
    scaled = torch.cat([value.flatten() for value in min_max_normalise(fisher_of(values)).values()])
    assert scaled.min() == 0
    assert scaled.max() == (0 if len(set(values)) == 1 else 1)
    order = torch.tensor(values).argsort(stable=True)
    assert (scaled[order].diff() >= 0).all()  # no weight overtakes another

"""The distillation losses against numbers worked out by hand."""

from math import log

import pytest
import torch

from reaper.equations import distill_loss, distill_loss_policy, pr_loss, pr_loss_policy, repr_loss, standardise

torch.set_num_threads(1)

# Softmax of (ln 1, ln 3) is (1/4, 3/4): a cross-entropy of 1.386294 with the first action and 0.287682 with the second.
STUDENT_LOGITS = [0.0, log(3)]


@pytest.mark.parametrize("loss", [distill_loss, pr_loss])
def test_squared_errors_are_summed_over_actions_for_each_item(loss) -> None:
    student = torch.tensor([[1.0, 2.0], [0.0, -1.0]])
    target = torch.tensor([[0.0, 4.0], [3.0, -1.0]])
    # 1^2 + 2^2 = 5      3^2 + 0^2 = 9
    assert loss(student, target).tolist() == [5.0, 9.0]


@pytest.mark.parametrize("alpha", [0.25, torch.tensor(0.25)])
def test_repr_loss_weights_distillation_and_retention(alpha) -> None:
    loss = repr_loss(torch.tensor([5.0, 9.0]), torch.tensor([1.0, 3.0]), alpha)
    # (0.25 * 5 + 0.75 * 1) = 2.0 and (0.25 * 9 + 0.75 * 3) = 4.5; mean 3.25
    assert loss.shape == ()
    assert loss.item() == 3.25


def test_distill_loss_policy_uses_the_teachers_best_action() -> None:
    logits = torch.tensor([STUDENT_LOGITS, STUDENT_LOGITS], requires_grad=True)
    teacher_q = torch.tensor([[5.0, 2.0], [-3.0, -2.0]])  # best: the first action, then the second
    loss = distill_loss_policy(logits, teacher_q)
    torch.testing.assert_close(loss, torch.tensor([1.386294, 0.287682]))
    loss.sum().backward()
    # softmax - one-hot: (1/4 - 1, 3/4) and (1/4, 3/4 - 1)
    torch.testing.assert_close(logits.grad, torch.tensor([[-0.75, 0.75], [0.25, -0.25]]))


def test_distill_loss_policy_targets_one_action_in_a_tie() -> None:
    loss = distill_loss_policy(torch.tensor([STUDENT_LOGITS]), torch.tensor([[2.0, 2.0]]))
    assert loss.item() == pytest.approx(1.386294) or loss.item() == pytest.approx(0.287682)


def test_pr_loss_policy_uses_the_previous_softmax() -> None:
    logits = torch.tensor([STUDENT_LOGITS, STUDENT_LOGITS], requires_grad=True)
    previous = torch.tensor([[7.0, 7.0], [log(3), 0.0]])  # softmax (1/2, 1/2) and (3/4, 1/4)
    loss = pr_loss_policy(logits, previous)
    # (1.386294 + 0.287682) / 2 = 0.836988      0.75 * 1.386294 + 0.25 * 0.287682 = 1.111641
    torch.testing.assert_close(loss, torch.tensor([0.836988, 1.111641]))
    loss.sum().backward()
    # student's softmax - previous softmax
    torch.testing.assert_close(logits.grad, torch.tensor([[-0.25, 0.25], [-0.5, 0.5]]))


def test_standardise() -> None:
    # (10 - 12) / 4 = -0.5      (20 - 12) / 4 = 2
    assert standardise(torch.tensor([[10.0, 20.0]]), 12.0, torch.tensor(4.0)).tolist() == [[-0.5, 2.0]]

"""A captured CUDA graph must not read a tensor's value. Tensors on the `meta` device have none, so reading fails."""

import pytest
import torch
from torch import nn

from reaper import equations

torch.set_num_threads(1)


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


IMAGES = tensor(5, 4, 8, 8, dtype=torch.uint8)
CALLS = {
    "dqn_target": ((tensor(5), tensor(5, dtype=torch.bool), tensor(5, 3), tensor()), (5,)),
    "dqn_loss": ((tensor(5, 3), tensor(5, dtype=torch.int64), tensor(5)), ()),
    "bootstrap": ((tensor(5), tensor(5, dtype=torch.bool), tensor(5), tensor(5)), (5,)),
    "huber_loss": ((tensor(5, 3), tensor(5, dtype=torch.int64), tensor(5)), ()),
    "double_q_values": ((tensor(5, 3), tensor(5, 3)), (5,)),
    "soft_quantiles": ((tensor(5, 3, 7), 0.03), (5, 7)),
    "quantile_loss": ((tensor(5, 3, 7), tensor(5, dtype=torch.int64), tensor(5, 7)), ()),
    "quantiles_of_actions": ((tensor(5, 3, 7), tensor(5, dtype=torch.int64)), (5, 7)),
    "soft_values": ((tensor(5, 3), 0.03), (5,)),
    "munchausen_bonus": ((tensor(5, 3), tensor(5, dtype=torch.int64), 0.03, 0.9, -1.0), (5,)),
    "repr_loss": ((tensor(5), tensor(5), tensor()), ()),
    "distill_loss": ((tensor(5, 3), tensor(5, 3)), (5,)),
    "pr_loss": ((tensor(5, 3), tensor(5, 3)), (5,)),
    "distill_loss_policy": ((tensor(5, 3), tensor(5, 3)), (5,)),
    "pr_loss_policy": ((tensor(5, 3), tensor(5, 3)), (5,)),
    "soft_policy": ((tensor(5, 3), tensor()), (5, 3)),
    "soft_policy_loss": ((tensor(5, 3), tensor(5, 2)), (5,)),
    "standardise": ((tensor(5, 3), tensor(), tensor()), (5, 3)),
    "advantages": ((tensor(5, 3),), (5, 3)),
    "gan_data": ((IMAGES, IMAGES, tensor(5), tensor(dtype=torch.int64)), (5, 4, 8, 8)),
    "disc_loss": ((tensor(5), tensor(5), tensor(5)), ()),
    "gen_loss": ((tensor(5),), ()),
    "score_gradients": ((nn.Linear(3, 1, device="meta"), tensor(5, 3)), (5, 3)),
    "gradient_norms": ((tensor(5, 4, 8, 8),), (5,)),
    "interpolate": ((tensor(5, 4, 8, 8), tensor(5, 4, 8, 8), tensor(5)), (5, 4, 8, 8)),
    "rescale": ((IMAGES,), (5, 4, 8, 8)),
    "unscale": ((tensor(5, 4, 8, 8),), (5, 4, 8, 8)),
    "noisy": ((IMAGES, tensor(5, 4, 8, 8)), (5, 4, 8, 8)),
    "ltm_ewc_loss": ((tensor(5), tensor(2), tensor()), ()),
    "ewc_loss": (([tensor(2, 3), tensor(2)],) * 3, ()),
    "oewc_loss": (([tensor(2, 3), tensor(2)],) * 3, ()),
}
EAGER_ONLY = {"oewc_fisher_update", "fisher_diagonal", "fisher_overlap", "min_max_normalise"}


@pytest.mark.parametrize("name", CALLS)
def test_reads_no_value(name: str) -> None:
    arguments, shape = CALLS[name]
    assert getattr(equations, name)(*arguments).shape == shape


def test_n_step_rewards_read_no_value() -> None:
    flags = [tensor(5, dtype=torch.bool)] * 3
    assert [part.shape for part in equations.n_step_rewards([tensor(5)] * 3, flags, flags, 0.99)] == [(5,)] * 3


def test_reading_a_value_would_fail() -> None:
    with pytest.raises(RuntimeError):
        bool(tensor() > 0)
    with pytest.raises(RuntimeError):
        tensor().item()


def test_every_function_is_accounted_for() -> None:
    public = set(equations.__all__) - {"EQUATIONS", "FISHER_OUTPUTS", "Equation", "equation"}
    assert public == CALLS.keys() | EAGER_ONLY | {"n_step_rewards"}

"""The paper's equations, and those of its later improvements, as pure functions, one each: tensors in, tensors out.

Nothing else of `reaper` is imported here. Every loss can be captured in a CUDA graph: it reads no tensor's value and
branches on none. The Fisher functions run eagerly, once per task.
"""

from .adversarial import (
    disc_loss,
    gan_data,
    gen_loss,
    gradient_norms,
    interpolate,
    noisy,
    rescale,
    score_gradients,
    unscale,
)
from .consolidation import (
    FISHER_OUTPUTS,
    ewc_loss,
    fisher_diagonal,
    fisher_overlap,
    ltm_ewc_loss,
    min_max_normalise,
    oewc_fisher_update,
    oewc_loss,
)
from .distillation import advantages, distill_loss, distill_loss_policy, pr_loss, pr_loss_policy, repr_loss, standardise
from .q_learning import (
    bootstrap,
    double_q_values,
    dqn_loss,
    dqn_target,
    huber_loss,
    munchausen_bonus,
    n_step_rewards,
    quantile_loss,
    quantiles_of_actions,
    soft_quantiles,
    soft_values,
)
from .registry import EQUATIONS, Equation, equation

__all__ = [
    "EQUATIONS",
    "FISHER_OUTPUTS",
    "Equation",
    "advantages",
    "bootstrap",
    "disc_loss",
    "distill_loss",
    "distill_loss_policy",
    "double_q_values",
    "dqn_loss",
    "dqn_target",
    "equation",
    "ewc_loss",
    "fisher_diagonal",
    "fisher_overlap",
    "gan_data",
    "gen_loss",
    "gradient_norms",
    "huber_loss",
    "interpolate",
    "ltm_ewc_loss",
    "min_max_normalise",
    "munchausen_bonus",
    "n_step_rewards",
    "noisy",
    "oewc_fisher_update",
    "oewc_loss",
    "pr_loss",
    "pr_loss_policy",
    "quantile_loss",
    "quantiles_of_actions",
    "repr_loss",
    "rescale",
    "score_gradients",
    "soft_quantiles",
    "soft_values",
    "standardise",
    "unscale",
]

"""What every Q-network shares, whatever it observes."""

from __future__ import annotations

import torch
from torch import nn


class QNetwork(nn.Module):
    """States (N, *observation.shape) -> one value per action (N, num_actions).

    `forward(states, compute_dtype=None)` takes states as the replay stores them. With a `compute_dtype`, activations
    and kernels are rounded to it, and values are not. The names of the parameters are those of the weights on disk; the
    linear layer at the end is called `values`.
    """

    # Above one while it learns a distribution: the head then has so many outputs per action, whose mean is the value.
    quantiles: int = 1
    # Whether convolutions use space-to-depth; None: where that is faster, on a GPU or with a compute dtype.
    space_to_depth: bool | None = None

    def outputs(self, head: torch.Tensor, all_quantiles: bool) -> torch.Tensor:
        """Of the head's outputs (N, num_actions * quantiles): the values (N, num_actions), or all quantiles
        (N, num_actions, quantiles)."""
        if self.quantiles == 1 and not all_quantiles:
            return head
        distributions = head.unflatten(1, (-1, self.quantiles))
        return distributions if all_quantiles else distributions.mean(dim=-1)

    def averaged(self) -> dict[str, torch.Tensor]:
        """The weights of the network without quantiles that has the same values. It exists because the head is linear:
        the mean of its outputs is the output of its mean."""
        weights = self.state_dict()
        for name in ("values.weight", "values.bias") if self.quantiles > 1 else ():
            weights[name] = weights[name].unflatten(0, (-1, self.quantiles)).mean(dim=1)
        return weights

    def initialise(self, scheme: str, rng: torch.Generator) -> None:
        """`paper`: N(0, 0.01), re-drawn beyond two standard deviations, biases 0.01 (appendix DQN). `he`: uniform,
        scaled to the layer's inputs, biases zero; small networks learn in half the agent steps with it."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.constant_(parameter, 0.01 if scheme == "paper" else 0.0)
            elif scheme == "paper":
                nn.init.trunc_normal_(parameter, mean=0.0, std=0.01, a=-0.02, b=0.02, generator=rng)
            else:
                nn.init.kaiming_uniform_(parameter, nonlinearity="relu", generator=rng)

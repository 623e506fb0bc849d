"""A neural autoregressive model of sequences of tokens (NADE, Larochelle and Murray 2011, with an output layer more).

The hidden layer for place i is a running sum over the tokens before it, so one pass gives the probabilities of all:

    h_i = relu(b_i + sum over j < i of E[v_j] P_j)
    p(v_i | v_1 ... v_(i-1)) = softmax(U relu(Q_i h_i + c_i) + B_i)

Every place has weights of its own (P, Q, b, c, B); tokens share theirs (E, U). A weight is used once per state or once
per token, which is why this is fast on a CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

RARE = 1e-5  # added to the frequency of a token at a place before training


@dataclass(frozen=True)
class Sizes:
    """Of a network."""

    places: int
    pixels: int  # of a patch
    tokens: int
    embedding: int
    hidden: int
    output: int


class TokenNetwork(nn.Module):
    """Tokens (L, N) -> logits (L, N, tokens) of each, given those before it."""

    vocabulary: torch.Tensor  # (tokens, pixels)

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        places, tokens, hidden = sizes.places, sizes.tokens, sizes.hidden
        self.embedding = nn.Parameter(torch.zeros(tokens, sizes.embedding))  # E
        self.inputs = nn.Parameter(torch.zeros(places - 1, sizes.embedding, hidden))  # P; nothing follows the last
        self.hidden_bias = nn.Parameter(torch.zeros(places, 1, hidden))  # b
        self.outputs = nn.Parameter(torch.zeros(places, hidden, sizes.output))  # Q
        self.output_bias = nn.Parameter(torch.zeros(places, 1, sizes.output))  # c
        self.readout = nn.Parameter(torch.zeros(tokens, sizes.output))  # U
        self.token_bias = nn.Parameter(torch.zeros(places, 1, tokens))  # B
        self.register_buffer("vocabulary", torch.zeros(tokens, sizes.pixels, dtype=torch.uint8))

    @torch.no_grad()
    def initialise(self, rng: torch.Generator) -> None:
        sizes = self.sizes
        deviations = {
            self.embedding: 1.0,
            self.inputs: math.sqrt(2 / (sizes.embedding * sizes.places)),
            self.outputs: math.sqrt(2 / sizes.hidden),
            self.readout: 0.1,
        }
        for weights, deviation in deviations.items():
            weights.copy_(torch.randn(weights.shape, generator=rng) * deviation)

    @torch.no_grad()
    def start_from_frequencies(self, tokens: torch.Tensor, weights: torch.Tensor) -> None:
        """B: before training, tokens (N, L) are as likely at each place as they are frequent there. Without it most
        of the training would go into finding this out."""
        for place in range(self.sizes.places):
            frequency = torch.zeros(self.sizes.tokens, device=tokens.device).index_add_(0, tokens[:, place], weights)
            self.token_bias[place, 0] = (frequency + RARE).log()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        steps = torch.bmm(functional.embedding(tokens[:-1], self.embedding), self.inputs)
        sums = torch.cat([torch.zeros_like(steps[:1]), steps]).cumsum(dim=0)
        hidden = torch.relu(sums + self.hidden_bias)
        outputs = torch.relu(torch.baddbmm(self.output_bias, hidden, self.outputs))
        return outputs @ self.readout.t() + self.token_bias

    @torch.no_grad()
    def sample(self, count: int, rng: torch.Generator, truncation: float) -> torch.Tensor:
        """Draws tokens (count, L), place by place. Those less likely than `truncation` times the likeliest are left
        out: together they are most of a sequence's errors, and the next generator would learn them."""
        sums = torch.zeros(count, self.sizes.hidden, device=rng.device)
        drawn = []
        for place in range(self.sizes.places):
            hidden = torch.relu(sums + self.hidden_bias[place])
            outputs = torch.relu(hidden @ self.outputs[place] + self.output_bias[place])
            likely = functional.softmax(outputs @ self.readout.t() + self.token_bias[place], dim=1)
            likely = likely * (likely >= truncation * likely.amax(dim=1, keepdim=True))
            cumulative = likely.cumsum(dim=1)
            uniform = torch.rand(count, 1, generator=rng, device=rng.device) * cumulative[:, -1:]
            tokens = torch.searchsorted(cumulative, uniform, right=True).squeeze(1).clamp_(max=likely.shape[1] - 1)
            drawn.append(tokens)
            if place < self.sizes.places - 1:
                sums = sums + self.embedding[tokens] @ self.inputs[place]
        return torch.stack(drawn, dim=1)

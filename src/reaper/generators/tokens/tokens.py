"""The token model as a generator: its hyper-parameters, and how it is trained, stored and loaded."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from reaper.compute.optimiser import Adam, FlatWeights
from reaper.compute.update import Forward, Update
from reaper.config.fields import duration, positive, probability, setting
from reaper.context import Context, state_tensors
from reaper.errors import UserError
from reaper.generators.base import FittedGenerator, Generator, GeneratorTraining, Tensors
from reaper.generators.tokens.network import Sizes, TokenNetwork
from reaper.generators.tokens.patches import fingerprints, fit_vocabulary, from_patches, to_patches
from reaper.memory.items import Items, StateSource, empty_states
from reaper.memory.long_term import tensor_bytes
from reaper.networks.weights import with_weights
from reaper.randomness import new_rng
from reaper.tasks.observation import VECTOR, ObservationSpec

MAX_PLACES = 256  # of a sequence: sampling draws one token after the other
GREYS = 16  # flat patches in the vocabulary of an untrained generator
WARM_UP = 50  # steps in which the learning rate rises


@dataclass(frozen=True)
class FittedTokens(FittedGenerator):
    """A network and how to sample from it."""

    network: TokenNetwork
    shape: tuple[int, ...]
    side: int
    truncation: float

    def sample(self, count: int, rng: torch.Generator, chunk: int = 1000) -> torch.Tensor:
        states = empty_states(count, self.shape, rng.device)
        for part in states.split(chunk):
            tokens = self.network.sample(len(part), rng, self.truncation)
            part.copy_(from_patches(self.network.vocabulary[tokens], self.shape, self.side))
        return states

    def state(self) -> dict[str, torch.Tensor]:
        """Weights in half precision: twice as many in the same bytes."""
        tensors = state_tensors(self.network)
        return {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


@dataclass(frozen=True)
class Tokens(Generator):
    """An autoregressive model of the patches of small frames."""

    patch: int = positive(4, "side of a patch in pixels")
    vocabulary: int = positive(768, "patches that are told apart, at most")
    embedding: int = positive(20, "numbers that stand for a token")
    hidden: int = positive(144, "hidden units per place")
    output: int = positive(28, "units before the probabilities, per place")
    warm_start: bool = setting(True, "from the second task on, training starts from the previous generator's weights")
    steps: int = duration(2_000, "training steps per task", exclusive=False)
    batch_size: int = positive(128, "states per step")
    learning_rate: float = positive(6e-3, "learning rate of Adam at the start; it falls to zero")
    truncation: float = probability(0.002, "tokens less likely than this share of the likeliest are never drawn")

    def training(
        self, context: Context, new_states: StateSource, pseudo_items: Items | None, num_tasks: int
    ) -> TokenTraining:
        return TokenTraining(context, self, TokenStates(context, self, new_states, pseudo_items, num_tasks))

    def untrained(self, context: Context) -> FittedTokens:
        network = self.network(context.observation, GREYS)
        network.initialise(new_rng("cpu", context.seed, *context.names, "token weights"))
        network.vocabulary[:] = torch.linspace(0, 255, GREYS).byte()[:, None]
        return self.fitted(context, network.to(context.device))

    def load(self, context: Context, tensors: Tensors) -> FittedTokens:
        count = len(tensors.get("vocabulary", ()))
        if not 0 < count <= self.vocabulary:
            raise UserError(f"the weights are those of another network: a generator of {count} kinds of patches")
        network = with_weights(lambda: self.network(context.observation, count).half(), tensors, "generator")
        return self.fitted(context, network.float().to(context.device))

    def fitted(self, context: Context, network: TokenNetwork) -> FittedTokens:
        return FittedTokens(network, context.observation.shape, self.patch, self.truncation)

    def num_bytes(self, observation: ObservationSpec) -> int:
        """With as many patches as it may have."""
        with torch.device("meta"):
            weights = self.network(observation, self.vocabulary).half().state_dict()
        return sum(tensor_bytes(tensor) for tensor in weights.values())

    def network(self, observation: ObservationSpec, tokens: int) -> TokenNetwork:
        """It has not been initialised."""
        if not self.suits(observation):
            raise UserError(
                f"the generator `tokens` needs small images (at most {MAX_PLACES * self.patch**2} pixels in all "
                f"frames, sides that are multiples of {self.patch}), not {observation}; choose RePR or "
                "--generator.name gan"
            )
        places = self.places(observation)
        return TokenNetwork(Sizes(places, self.patch**2, tokens, self.embedding, self.hidden, self.output))

    def suits(self, observation: ObservationSpec) -> bool:
        """Images that can be cut into patches, but not into too many of them."""
        if observation.kind == VECTOR or any(side % self.patch for side in observation.shape[1:]):
            return False
        return self.places(observation) <= MAX_PLACES

    def places(self, observation: ObservationSpec) -> int:
        """The length of a sequence of tokens."""
        return observation.size // self.patch**2


class TokenStates:
    """The states that a generator learns, as tokens: those of the new task make up 1/T of a batch."""

    def __init__(
        self, context: Context, kind: Tokens, new_states: StateSource, pseudo_items: Items | None, num_tasks: int
    ) -> None:
        kind.network(context.observation, 1)  # refuses what cannot be cut into patches
        states = new_states.distinct_states(context.settings.generator.pseudo_items, context.rng("token states"))
        self.num_new, self.new_share = len(states), 1 / num_tasks
        weights = torch.full((self.num_new,), 1 / self.num_new, device=states.device)
        if pseudo_items is not None:
            earlier = torch.full((len(pseudo_items),), 1 / len(pseudo_items), device=states.device)
            states = torch.cat([states, pseudo_items.states])
            weights = torch.cat([weights * self.new_share, earlier * (1 - self.new_share)])
        self.weights = weights
        self.vocabulary, self.tokens = fit_vocabulary(to_patches(states, kind.patch), weights, kind.vocabulary)

    def sample(self, count: int, rng: torch.Generator) -> torch.Tensor:
        """Tokens (L, count)."""
        uniform = torch.rand(3, count, generator=rng, device=rng.device)
        new = (uniform[0] * self.num_new).long()
        earlier = self.num_new + (uniform[1] * (len(self.tokens) - self.num_new)).long()
        chosen = torch.where(uniform[2] < self.new_share, new, earlier.clamp(max=len(self.tokens) - 1))
        return self.tokens[chosen].t().contiguous()


class TokenTraining(GeneratorTraining):
    """Maximises the likelihood of states."""

    def __init__(self, context: Context, kind: Tokens, states: TokenStates) -> None:
        super().__init__(context, kind.steps)
        self.kind, self.states = kind, states
        network = kind.network(context.observation, len(states.vocabulary))
        network.initialise(new_rng("cpu", context.seed, *context.names, "token weights"))
        self.network = network.to(context.device)
        self.network.vocabulary.copy_(states.vocabulary)
        self.network.start_from_frequencies(states.tokens, states.weights)
        weights = FlatWeights(self.network)
        self.optimiser = Adam(weights, kind.learning_rate, beta1=0.9, beta2=0.99, epsilon=1e-8)
        self.update = Update(weights, self.optimiser, self.loss)
        self.rng = context.rng("token batches")
        self.last_loss = torch.zeros(())
        self.parts |= {"weights": weights, "optimiser": self.optimiser, "batches": self.rng}

    def begin(self) -> None:
        """There is nothing to prepare."""

    @torch.no_grad()
    def start_from(self, previous: Tensors) -> None:
        """Patches that both vocabularies have keep their rows, and places their weights. How frequent tokens are at
        each place is known better from the states."""
        before, now = fingerprints(previous["vocabulary"]), fingerprints(self.states.vocabulary.cpu())
        same = (now[:, None] == before[None]).nonzero()
        for name, weights in self.network.named_parameters():
            old = previous[name].to(weights)
            if name in ("embedding", "readout"):
                weights[same[:, 0]] = old[same[:, 1]]
            elif name != "token_bias":
                weights.copy_(old)

    def loss(self, forward: Forward, weights: list[torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
        """The negative logarithm of a state's likelihood, mean of a batch: nats per state."""
        logits = forward(tokens)
        return len(tokens) * functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    def step(self) -> None:
        done = self.calls_done
        self.optimiser.learning_rate = self.kind.learning_rate * min(1, (done + 1) / WARM_UP) * (1 - done / self.calls)
        self.last_loss = self.update(self.states.sample(self.kind.batch_size, self.rng))

    def losses(self) -> dict[str, float]:
        return {"likelihood": float(self.last_loss)}

    def fitted(self) -> FittedTokens:
        """Rounded to half precision, as it is stored: so a resumed stage samples the same states."""
        network = self.kind.network(self.context.observation, len(self.states.vocabulary))
        network.load_state_dict(self.network.state_dict())
        return self.kind.fitted(self.context, network.half().float().to(self.context.device))

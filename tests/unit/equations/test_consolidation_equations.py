"""EWC and the Fisher diagonal against numbers worked out by hand and against plain autograd."""

import math

import pytest
import torch
from torch import nn

from reaper.equations import (
    ewc_loss,
    fisher_diagonal,
    fisher_overlap,
    ltm_ewc_loss,
    min_max_normalise,
    oewc_fisher_update,
    oewc_loss,
)

torch.set_num_threads(1)


@pytest.mark.parametrize("loss", [ewc_loss, oewc_loss])
def test_penalty_weighs_squared_distances_by_the_fisher_diagonal(loss) -> None:
    fisher = [torch.tensor([1.0, 2.0]), torch.tensor([[3.0]])]
    weights = [torch.tensor([1.0, 1.0], requires_grad=True), torch.tensor([[5.0]], requires_grad=True)]
    anchor = [torch.tensor([0.0, 3.0]), torch.tensor([[4.0]])]
    penalty = loss(fisher, weights, anchor)
    assert penalty.item() == 12.0  # 1 * 1^2 + 2 * (-2)^2 + 3 * 1^2
    penalty.backward()
    # 2 F (theta - theta*): 2 * 1 * 1, 2 * 2 * (-2), 2 * 3 * 1
    assert [w.grad.tolist() for w in weights if w.grad is not None] == [[2.0, -8.0], [[6.0]]]


@pytest.mark.parametrize("loss", [ewc_loss, oewc_loss])
def test_penalty_refuses_sequences_of_different_lengths(loss) -> None:
    one = torch.ones(1)
    with pytest.raises(ValueError, match="shorter"):
        loss([one, one], [one, one], [one])


def test_ltm_ewc_loss() -> None:
    distillation = torch.tensor([1.0, 3.0])
    # (1 + 3) / 2 + 300 / 2 * 12 = 2 + 1800
    assert ltm_ewc_loss(distillation, torch.tensor(12.0), 300.0).item() == 1802.0
    # one penalty per earlier task: 2 + 0.5 / 2 * (12 + 2) = 5.5
    assert ltm_ewc_loss(distillation, torch.tensor([12.0, 2.0]), torch.tensor(0.5)).item() == 5.5


def test_oewc_fisher_update() -> None:
    running = {"a": torch.tensor([4.0, 0.0]), "b": torch.tensor(2.0)}
    new = {"b": torch.tensor(1.0), "a": torch.tensor([1.0, 7.0])}
    updated = oewc_fisher_update(running, new, 0.5)
    # 0.5 * 4 + 1, 0.5 * 0 + 7      0.5 * 2 + 1
    assert updated["a"].tolist() == [3.0, 7.0]
    assert updated["b"].item() == 2.0
    with pytest.raises(ValueError, match=r"\['b'\] in only one"):
        oewc_fisher_update(running, {"a": new["a"]}, 0.5)


def test_min_max_normalise_is_over_all_weights_together() -> None:
    scaled = min_max_normalise({"a": torch.tensor([2.0, 4.0]), "b": torch.tensor([[6.0]])})
    # smallest 2, largest 6: (2 - 2) / 4, (4 - 2) / 4      (6 - 2) / 4
    assert scaled["a"].tolist() == [0.0, 0.5]
    assert scaled["b"].tolist() == [[1.0]]
    assert min_max_normalise({"a": torch.full((2,), 3.0)})["a"].tolist() == [0.0, 0.0]


def test_fisher_overlap() -> None:
    first = {"a": torch.tensor([1.0]), "b": torch.tensor([[3.0]])}  # trace 4: 0.25, 0.75
    second = {"b": torch.tensor([[16.0]]), "a": torch.tensor([9.0])}  # trace 25: 0.36, 0.64
    # d^2 = (1 + 1 - 2 (sqrt(0.25 * 0.36) + sqrt(0.75 * 0.64))) / 2 = 1 - (0.3 + 0.6928203) = 0.0071797
    assert fisher_overlap(first, second).item() == pytest.approx(1 - 0.0071797, abs=1e-7)
    with pytest.raises(ValueError, match="in only one"):
        fisher_overlap(first, {"a": first["a"]})


def test_fisher_overlap_of_disjoint_diagonals_is_zero() -> None:
    assert fisher_overlap({"a": torch.tensor([2.0, 0.0])}, {"a": torch.tensor([0.0, 5.0])}).item() == 0.0


def test_fisher_diagonal_of_a_linear_network() -> None:
    fisher = fisher_diagonal(nn.Linear(2, 3), torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    # d y_a / d W_ab = x_b, so F = mean of x_b^2: (1 + 9) / 2 = 5 and (4 + 0) / 2 = 2 in every row; d y / d b = 1
    assert fisher["weight"].tolist() == [[5.0, 2.0]] * 3
    assert fisher["bias"].tolist() == [1.0, 1.0, 1.0]


def test_fisher_diagonal_sums_over_outputs_and_averages_over_states() -> None:
    hidden, output = nn.Linear(1, 1), nn.Linear(1, 2)
    with torch.no_grad():
        hidden.weight.fill_(1.0)
        hidden.bias.fill_(1.0)
        output.weight.copy_(torch.tensor([[5.0], [-2.0]]))
    fisher = fisher_diagonal(nn.Sequential(hidden, nn.ReLU(), output), torch.tensor([[2.0], [-2.0]]))
    # x = 2: h = 3. Squared derivatives: (5 * 2)^2 + (-2 * 2)^2 = 116 for the hidden weight, 5^2 + 2^2 = 29 for its
    # bias, 3^2 for each output weight. x = -2: the ReLU is 0, and so are these. Averages: half of each; biases 1.
    assert fisher["0.weight"].tolist() == [[58.0]]
    assert fisher["0.bias"].tolist() == [14.5]
    assert fisher["2.weight"].tolist() == [[4.5], [4.5]]
    assert fisher["2.bias"].tolist() == [1.0, 1.0]


def test_fisher_diagonal_of_a_convolution_adds_positions_before_squaring() -> None:
    convolution, output = nn.Conv2d(1, 1, 1), nn.Linear(2, 1)
    nn.init.ones_(output.weight)
    fisher = fisher_diagonal(nn.Sequential(convolution, nn.Flatten(), output), torch.tensor([[[[1.0, 2.0]]]]))
    # y = (w x_1 + b) + (w x_2 + b): (1 + 2)^2 = 9 for w, 2^2 = 4 for b
    assert fisher["0.weight"].item() == 9.0
    assert fisher["0.bias"].item() == 4.0


def test_fisher_diagonal_of_a_softmax_output() -> None:
    network = nn.Linear(1, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[math.log(3.0)], [0.0]]))
        network.bias.zero_()
    state = torch.tensor([[1.0]])
    # p = 3/4 and 1/4. d p_1 / d z_1 = p_1 p_2 = 3/16, and so are the other three, up to their sign: two outputs, each
    # squared, 2 * (3/16)^2 = 18/256 for either weight and bias.
    softmax = fisher_diagonal(network, state, "softmax")
    assert softmax["weight"].flatten().tolist() == pytest.approx([18 / 256] * 2)
    assert softmax["bias"].tolist() == pytest.approx([18 / 256] * 2)
    # Divided by the probability of each output: (3/16)^2 (4/3 + 4) = 3/16 = p_1 p_2, the variance of the first action.
    categorical = fisher_diagonal(network, state, "categorical")
    assert categorical["bias"].tolist() == pytest.approx([3 / 16] * 2)
    assert fisher_diagonal(network, state)["bias"].tolist() == [1.0, 1.0]  # of the linear output


@pytest.mark.parametrize(("output", "power"), [("softmax", 2), ("categorical", 1)])
def test_fisher_diagonal_of_a_policy_is_that_of_per_state_log_probabilities(output: str, power: int) -> None:
    """d p = p d log p: squared derivatives of p weigh those of log p by p^2, and divided by p by p."""
    network, states = convolutional().double(), torch.randn(5, 2, 9, 9, dtype=torch.float64)
    weights = dict(network.named_parameters())
    expected = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for state in states:
        for log_probability in network(state[None])[0].log_softmax(dim=0):
            gradients = torch.autograd.grad(log_probability, list(weights.values()), retain_graph=True)
            for name, gradient in zip(weights, gradients, strict=True):
                expected[name] += log_probability.detach().exp() ** power * gradient**2 / len(states)
    fisher = fisher_diagonal(network, states, output, chunk=2)
    for name, value in expected.items():
        assert value.abs().max() > 0
        torch.testing.assert_close(fisher[name], value)


class Branching(nn.Module):
    """A head that one of the two outputs does not depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 1), nn.Linear(5, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first(states), self.second(states).tanh()], dim=1)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, (3, 2), stride=2, padding=(1, 0)),
        nn.ReLU(inplace=True),
        nn.Conv2d(3, 4, 2, dilation=2, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 3 * 2, 6, bias=False),
        nn.Tanh(),
        nn.Linear(6, 3),
    )


def by_autograd(network: nn.Module, states: torch.Tensor) -> dict[str, torch.Tensor]:
    """The definition: one state and one output at a time."""
    weights = dict(network.named_parameters())
    fisher = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for state in states:
        for output in network(state[None])[0]:
            gradients = torch.autograd.grad(output, list(weights.values()), retain_graph=True)
            for name, gradient in zip(weights, gradients, strict=True):
                fisher[name] += gradient**2 / len(states)
    return fisher


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize(("network", "shape"), [(convolutional(), (7, 2, 9, 9)), (Branching(), (7, 5))])
def test_fisher_diagonal_is_that_of_plain_autograd(network: nn.Module, shape: tuple[int, ...], chunk: int) -> None:
    network, states = network.double(), torch.randn(*shape, dtype=torch.float64)
    expected = by_autograd(network, states)
    fisher = fisher_diagonal(network, states, chunk=chunk)
    assert list(fisher) == [name for name, _ in network.named_parameters()]
    for name, value in expected.items():
        assert value.abs().max() > 0
        torch.testing.assert_close(fisher[name], value)


def test_fisher_diagonal_leaves_the_network_as_it_was_and_needs_no_gradients() -> None:
    network, states = convolutional(), torch.randn(4, 2, 9, 9)
    expected, outputs = fisher_diagonal(network, states), network(states)
    network.requires_grad_(False)
    with torch.no_grad():
        frozen = fisher_diagonal(network, states)
    for name, weight in network.named_parameters():
        assert weight.grad is None
        assert not frozen[name].requires_grad
        torch.testing.assert_close(frozen[name], expected[name])
    assert network(states).equal(outputs)
    assert not any(module._forward_hooks for module in network.modules())


def tied() -> nn.Module:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    return nn.Sequential(first, second)


def with_a_spare_layer() -> nn.Module:
    network = Branching()
    network.spare = nn.Linear(1, 1)
    return network


@pytest.mark.parametrize(
    ("network", "states", "complaint"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.ones(2, 4), "'1' is BatchNorm1d"),
        (nn.Conv2d(2, 2, 1, groups=2), torch.ones(2, 2, 1, 1), "plain Conv2d"),
        (nn.Conv2d(2, 2, 1, padding="same"), torch.ones(2, 2, 1, 1), "plain Conv2d"),
        (tied(), torch.ones(2, 4), "shared between layers"),
        (nn.Sequential(*[nn.Linear(4, 4)] * 2), torch.ones(2, 4), "called again"),
        (nn.Linear(4, 4), torch.ones(2, 3, 4), r"not \(2, 3, 4\)"),
        (with_a_spare_layer(), torch.ones(2, 5), "never calls: \\['spare'\\]"),
    ],
)
def test_fisher_diagonal_refuses_what_it_would_get_wrong(network: nn.Module, states: torch.Tensor, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        fisher_diagonal(network, states)
    assert not any(module._forward_hooks for module in network.modules())

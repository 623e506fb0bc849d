"""Optimisers and updates against numbers computed by hand."""

import copy

import pytest
import torch

from reaper.compute.optimiser import Adam, FlatWeights, RMSProp, annealed_rate, clip_global_norm
from reaper.compute.update import Update
from reaper.config.presets import PAPER
from reaper.networks.convolutional import ConvQNetwork
from reaper.tasks.observation import state_spec

ATARI_STATE = state_spec(PAPER.observation)


def flat(*values: float) -> FlatWeights:
    network = torch.nn.Linear(len(values), 1, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([values]))
    return FlatWeights(network)


def test_rmsprop_matches_tensorflow():
    weights = flat(1.0, -2.0)
    optimiser = RMSProp(weights, learning_rate=0.1, decay=0.9, epsilon=0.01)
    weights.gradients.copy_(torch.tensor([2.0, 0.0]))
    optimiser.step([weights.gradients])
    # accumulator: 0.9 * 1 + 0.1 * 2^2 = 1.3 and 0.9 * 1 + 0 = 0.9
    # step: 0.1 * 2 / sqrt(1.3 + 0.01) = 0.2 / 1.144552 = 0.174741; no gradient, no step
    assert weights.values.tolist() == pytest.approx([1.0 - 0.174741, -2.0], abs=1e-6)
    optimiser.step([weights.gradients])
    # accumulator: 0.9 * 1.3 + 0.4 = 1.57; step: 0.2 / sqrt(1.58) = 0.2 / 1.256981 = 0.159111
    assert weights.values[0].item() == pytest.approx(1.0 - 0.174741 - 0.159111, abs=1e-6)


def test_adam_corrects_its_bias():
    weights = flat(1.0)
    optimiser = Adam(weights, learning_rate=0.1, beta1=0.5, beta2=0.75, epsilon=0.0)
    weights.gradients.fill_(4.0)
    optimiser.step([weights.gradients])
    # mean 0.5 * 4 = 2, corrected by 1 - 0.5: 4; square 0.25 * 16 = 4, corrected by 1 - 0.75: 16; 0.1 * 4 / 4
    assert weights.values.item() == pytest.approx(0.9)
    weights.gradients.fill_(0.0)
    optimiser.step([weights.gradients])
    # mean 1, corrected by 0.75: 4/3; square 3, corrected by 1 - 0.5625: 6.857143, root 2.618615; 0.1 * 0.509175
    assert weights.values.item() == pytest.approx(0.9 - 0.0509175, abs=1e-6)


def test_adam_without_momentum_agrees_with_torch():
    ours, theirs = flat(0.3, -0.7, 2.0), torch.nn.Parameter(torch.tensor([0.3, -0.7, 2.0]))
    optimiser = Adam(ours, 1e-3, 0.0, 0.99, 1e-8)
    reference = torch.optim.Adam([theirs], lr=1e-3, betas=(0.0, 0.99), eps=1e-8)
    for step in range(5):
        gradient = torch.tensor([0.1 * step, -1.0, 3.0 - step])
        theirs.grad = gradient.clone()
        optimiser.step([gradient])
        reference.step()
    torch.testing.assert_close(ours.values, theirs.detach())


@pytest.mark.parametrize(
    ("gradient", "clipped"), [([3.0, 4.0], [0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4]), ([0.0, 0.0], [0, 0])]
)
def test_global_norm_clipping(gradient, clipped):
    whole, parts = torch.tensor(gradient), [torch.tensor([value]) for value in gradient]
    clip_global_norm([whole], 1.0)
    clip_global_norm(parts, 1.0)
    assert whole.tolist() == pytest.approx(clipped)
    assert [part.item() for part in parts] == pytest.approx(clipped)


@pytest.mark.parametrize("kind", [lambda w: RMSProp(w, 0.1, 0.9, 0.01), lambda w: Adam(w, 0.1, 0.5, 0.9, 1e-8)])
def test_stepping_parameter_by_parameter_equals_stepping_the_flat_vector(kind):
    ours, others = (FlatWeights(ConvQNetwork(ATARI_STATE, 6)) for _ in range(2))
    others.copy_from(ours)
    optimiser, other = kind(ours), kind(others)
    slices = other.slices()
    assert len({part[0].untyped_storage().data_ptr() for part in slices}) == len(slices)
    for _ in range(3):
        gradient = torch.randn_like(ours.values)
        optimiser.step([gradient])
        other.step(others.views(gradient), slices)
    assert torch.equal(ours.values, others.values)
    for name, tensor in optimiser.state().items():
        assert torch.equal(tensor, other.state()[name])


def test_an_update_changes_the_network_through_its_flat_weights():
    weights = flat(1.0, 1.0)
    optimiser = RMSProp(weights, learning_rate=1.0, decay=0.0, epsilon=0.0)  # steps of one against the gradient's sign
    update = Update(weights, optimiser, lambda forward, weights, batch: forward(batch).sum())
    assert update(torch.tensor([[2.0, -5.0]])).item() == pytest.approx(-3.0)
    assert next(weights.network.parameters()).tolist()[0] == pytest.approx([0.0, 2.0])


def test_eager_and_functional_updates_agree():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Flatten(), torch.nn.Linear(27, 1))
    network.memory_format = torch.channels_last  # weights are stored in another order than their axes
    network.to(memory_format=torch.channels_last)
    other = copy.deepcopy(network)

    def loss(forward, weights, batch):
        return forward(batch).square().mean() + weights[0].square().sum()

    results = []
    for net, mode in ((network, "eager"), (other, "functional")):
        weights = FlatWeights(net)
        update = Update(weights, RMSProp(weights, 0.1, 0.9, 0.01), loss, max_grad_norm=0.5)
        losses = [getattr(update, mode)(torch.full((4, 2, 4, 4), float(step))).item() for step in range(3)]
        results.append((losses, weights.values))
    assert results[0][0] == pytest.approx(results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1])


def test_flat_weights_keep_the_memory_format_of_a_large_network():
    """Channels-last kernels make the first layer's backward pass on a CPU four times as fast."""
    network = ConvQNetwork(ATARI_STATE, 6)
    FlatWeights(network)
    kernels = [p for p in network.parameters() if p.dim() == 4]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in kernels)


@pytest.mark.parametrize(
    ("done", "annealing", "factor"),
    [(0.0, 0.0, 1.0), (0.9, 0.0, 1.0), (0.5, 0.5, 1.0), (0.75, 0.5, 0.5), (1.0, 0.5, 0.0), (0.25, 1.0, 0.75)],
)
def test_annealing_lowers_the_learning_rate_at_the_end(done, annealing, factor):
    assert annealed_rate(done, annealing) == pytest.approx(factor)


@pytest.mark.parametrize("kind", [lambda w, lr: RMSProp(w, lr, 0.9, 0.01), lambda w, lr: Adam(w, lr, 0.5, 0.9, 1e-8)])
def test_an_annealed_step_is_that_of_a_lower_learning_rate(kind):
    annealed, lower = flat(1.0, 2.0), flat(1.0, 2.0)
    optimiser, other = kind(annealed, 0.4), kind(lower, 0.1)
    for factor in (1.0, 0.25):  # the last one counts
        optimiser.anneal(factor)
    for weights, each in ((annealed, optimiser), (lower, other)):
        each.step([torch.tensor([3.0, -4.0])])
        assert weights.values.tolist() != [1.0, 2.0]
    torch.testing.assert_close(annealed.values, lower.values)

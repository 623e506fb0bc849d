"""The token model: patches and back, exact probabilities, learning, storing, resuming."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from conftest import TINY

from reaper.config.overrides import with_overrides
from reaper.config.presets import ARCADE, PAPER
from reaper.context import Context
from reaper.errors import UserError
from reaper.generators import GAN, Tokens, generator_for
from reaper.generators.tokens.network import Sizes, TokenNetwork
from reaper.generators.tokens.patches import fit_vocabulary, from_patches, to_patches
from reaper.memory.items import Items
from reaper.randomness import new_rng
from reaper.tasks.observation import ObservationSpec, state_spec, vector_spec

SETTINGS = with_overrides(ARCADE, {**TINY, "generator.pseudo-items": 200})
CONTEXT = Context(SETTINGS, 6, 0, ("test",))
KIND = Tokens(steps=150, batch_size=32, hidden=32, embedding=8, output=16, learning_rate=0.02)


def screens(columns, background=40):
    """Two frames in which a bright square has moved down by four pixels, in one column of patches each."""
    states = torch.full((len(columns), 2, 16, 16), background, dtype=torch.uint8)
    for state, column in zip(states, columns, strict=True):
        state[0, 4:8, 4 * column : 4 * column + 4] = 255
        state[1, 8:12, 4 * column : 4 * column + 4] = 255
    return states


REAL = screens([0, 1, 2, 3] * 25)


def kinds(states):
    return {bytes(state.numpy()) for state in states}


def fit(kind=KIND, states=REAL, pseudo_items=None, num_tasks=1, context=CONTEXT):
    return kind.training(context, Items(states), pseudo_items, num_tasks).run()


@pytest.fixture(scope="module")
def fitted():
    return fit()


def test_patches_and_back():
    states = torch.randint(256, (3, 2, 8, 12), dtype=torch.uint8)
    patches = to_patches(states, 4)
    assert patches.shape == (3, 2 * 3 * 2, 16)
    assert torch.equal(patches[:, 0], states[:, 0, :4, :4].flatten(1))  # the first place, oldest frame
    assert torch.equal(patches[:, 1], states[:, 1, :4, :4].flatten(1))
    assert torch.equal(from_patches(patches, (2, 8, 12), 4), states)


def test_the_vocabulary_holds_the_most_frequent_patches():
    patches = torch.tensor([[10, 20, 20], [20, 12, 90]]).byte()[:, :, None].repeat(1, 1, 4)
    vocabulary, tokens = fit_vocabulary(patches, torch.ones(2), 2)
    assert vocabulary[0].tolist() == [20] * 4
    whole, every = fit_vocabulary(patches, torch.ones(2), 100)
    assert torch.equal(whole[every], patches)
    assert len(whole) == 4
    assert tokens[0, 1] == tokens[0, 2] == tokens[1, 0] == 0
    assert {int(vocabulary[t][0]) for t in tokens.flatten()} == {int(v[0]) for v in vocabulary}
    heavy, _ = fit_vocabulary(patches, torch.tensor([0.0, 5.0]), 3)
    assert {int(patch[0]) for patch in heavy} == {20, 12, 90}


def test_a_rare_patch_becomes_the_most_similar_one():
    patches = torch.tensor([[0, 0, 100, 100, 30]]).byte()[:, :, None].repeat(1, 1, 4)
    vocabulary, tokens = fit_vocabulary(patches, torch.ones(1), 2)
    assert int(vocabulary[tokens[0, 4]][0]) == 0


def small_network():
    network = TokenNetwork(Sizes(places=3, pixels=4, tokens=3, embedding=2, hidden=5, output=4))
    network.initialise(new_rng("cpu", "test"))
    with torch.no_grad():
        network.token_bias.copy_(torch.randn(3, 1, 3, generator=new_rng("cpu", "bias")))
    return network


def probabilities(network):
    """Of every sequence, by the formula."""
    sequences = torch.tensor(list(product(range(3), repeat=3)))
    logs = torch.log_softmax(network(sequences.t()), dim=2)
    return sequences, logs.gather(2, sequences.t()[:, :, None]).squeeze(2).sum(dim=0).exp()


def test_the_probabilities_of_all_sequences_sum_to_one():
    _, likely = probabilities(small_network())
    assert likely.sum().item() == pytest.approx(1, abs=1e-5)


def test_sequences_are_drawn_with_their_probabilities():
    network = small_network()
    _, likely = probabilities(network)
    drawn = network.sample(20_000, new_rng("cpu", "draw"), truncation=0.0)
    number = (drawn * torch.tensor([9, 3, 1])).sum(dim=1)
    assert torch.allclose(torch.bincount(number, minlength=27) / 20_000, likely, atol=0.012)


def test_unlikely_tokens_are_left_out():
    network = small_network()
    drawn = network.sample(200, new_rng("cpu", "draw"), truncation=1.0)
    assert len(drawn.unique(dim=0)) == 1  # only the likeliest at each place


def test_it_draws_the_states_it_learnt_and_no_others(fitted):
    generated = fitted.sample(400, CONTEXT.rng("draw"))
    assert generated.shape == (400, 2, 16, 16)
    assert generated.dtype == torch.uint8
    real = kinds(REAL)
    true = [bytes(state.numpy()) in real for state in generated]
    assert sum(true) > 360
    assert kinds(generated) >= real


@pytest.mark.parametrize("warm", [False, True])
def test_the_next_generator_draws_both_tasks_in_equal_shares(fitted, warm):
    kind = replace(KIND, warm_start=warm, steps=40)
    second = screens([0, 1, 2, 3] * 25, background=200)
    training = kind.training(CONTEXT, Items(second), Items(fitted.sample(200, CONTEXT.rng("items"))), 2)
    if warm:
        training.start_from(fitted.state())
    generated = training.run().sample(1000, CONTEXT.rng("draw"))
    share = (generated[:, 0, 0, 0] == 200).float().mean().item()  # the top left corner is background in every state
    assert share == pytest.approx(0.5, abs=0.08)


def test_a_warm_start_keeps_what_was_learnt(fitted):
    def first_loss(warm):
        training = KIND.training(CONTEXT, Items(REAL), None, 1)
        if warm:
            training.start_from(fitted.state())
        training.step()
        return training.losses()["likelihood"]

    assert first_loss(True) < first_loss(False) - 1


def test_stored_and_loaded_it_draws_the_same(fitted):
    loaded = KIND.load(CONTEXT, fitted.state())
    assert torch.equal(fitted.sample(50, CONTEXT.rng("a")), loaded.sample(50, CONTEXT.rng("a")))
    assert sum(t.numel() * t.element_size() for t in fitted.state().values()) < KIND.num_bytes(CONTEXT.observation)
    assert {tensor.dtype for tensor in fitted.state().values()} == {torch.float16, torch.uint8}


def test_it_takes_no_more_bytes_than_the_gan():
    observation = state_spec(ARCADE.observation)
    assert Tokens().num_bytes(observation) <= GAN(latent_size=64).num_bytes(observation)


def test_weights_of_another_network_are_refused(fitted):
    with pytest.raises(UserError, match="another network"):
        replace(KIND, hidden=17).load(CONTEXT, fitted.state())
    with pytest.raises(UserError, match="another network"):
        KIND.load(CONTEXT, {})


@pytest.mark.parametrize(
    ("side", "observation"),
    [(4, state_spec(PAPER.observation)), (5, state_spec(ARCADE.observation)), (4, vector_spec(4))],
    ids=["large frames", "sides that are no multiples", "vectors"],
)
def test_other_observations_than_small_images_are_refused(side, observation):
    kind = Tokens(patch=side)
    assert not kind.suits(observation)
    with pytest.raises(UserError, match=rf"needs small images.* multiples of {side}\), not .*choose RePR"):
        kind.num_bytes(observation)


def test_a_sequence_has_at_most_256_tokens():
    largest = ObservationSpec((1, 64, 64))
    assert Tokens().suits(largest)
    assert not Tokens().suits(replace(largest, shape=(1, 64, 68)))


def test_an_untrained_one_draws_grey_patches():
    generator = generator_for(with_overrides(SETTINGS, {"generator.name": "tokens"})).untrained(CONTEXT)
    assert generator.sample(3, CONTEXT.rng("a")).unique().numel() > 2


def test_training_resumes_exactly():
    def training():
        return replace(KIND, steps=12).training(CONTEXT, Items(REAL), None, 1)

    whole, cut, resumed = training(), training(), training()
    whole.run()
    for _ in range(5):
        cut.step()
        cut.calls_done += 1
    resumed.restore(cut.state())
    resumed.run()
    assert torch.equal(whole.network.outputs, resumed.network.outputs)

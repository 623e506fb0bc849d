"""Facts of the paper that hold by construction."""

import pytest
import torch

from reaper.config.overrides import at_fraction
from reaper.config.presets import ARCADE, PAPER, VARIANTS
from reaper.generators import generator_for
from reaper.generators.gan.discriminator import Discriminator
from reaper.generators.gan.generator import GeneratorNetwork
from reaper.networks.convolutional import ConvQNetwork
from reaper.retention import RETENTIONS, PseudoRehearsal
from reaper.retention.rehearsal import item_bytes
from reaper.study.chains import build_chain
from reaper.study.conditions import CONDITIONS, MAIN
from reaper.study.preflight import memory_bytes
from reaper.tasks.observation import state_spec
from reaper.tasks.sequence import ATARI_3, Sequence
from reaper.tasks.task import Task

ATARI_STATE = state_spec(PAPER.observation)
GB = 10**9
ATARI = Sequence("atari-3", tuple(Task(name, name, 18, lambda options: None) for name in ATARI_3))  # pyright: ignore


def test_the_dqn_has_the_papers_parameters():
    # 4*32*8*8+32 = 8,224; 32*64*4*4+64 = 32,832; 64*64*3*3+64 = 36,928; 3,136*512+512 = 1,606,144; 512*18+18 = 9,234
    network = ConvQNetwork(ATARI_STATE, 18)
    assert sum(p.numel() for p in network.parameters()) == 8_224 + 32_832 + 36_928 + 1_606_144 + 9_234 == 1_693_362


def test_the_extended_dqn_doubles_every_hidden_layer():
    shapes = [tuple(p.shape) for p in ConvQNetwork(ATARI_STATE, 18, width=2).parameters() if p.ndim > 1]
    assert [shape[0] for shape in shapes] == [64, 128, 128, 1024, 18]


@pytest.mark.parametrize(("size", "sides"), [(84, [7, 21, 42, 84, 84]), (16, [4, 8, 16])])
def test_the_generators_activations_grow_as_in_the_table(size, sides):
    seen = []
    generator = GeneratorNetwork(size, 4, 100)
    for layer in generator.modules():
        if isinstance(layer, torch.nn.Unflatten | torch.nn.ConvTranspose2d):
            layer.register_forward_hook(lambda _, __, output: seen.append(output.shape[-1]))
    states = generator(torch.zeros(2, 100))
    assert seen == sides
    assert states.shape == (2, 4, size, size)


def test_the_discriminators_activations_shrink_as_in_the_table():
    seen = []
    discriminator = Discriminator(84, 4)
    for layer in discriminator.modules():
        if isinstance(layer, torch.nn.Conv2d):
            layer.register_forward_hook(lambda _, __, output: seen.append(tuple(output.shape[1:])))
    assert discriminator(torch.zeros(2, 4, 84, 84)).shape == (2,)
    assert seen == [(64, 28, 28), (128, 14, 14), (256, 7, 7)]


# As printed in Table score-table. The ewc row is six times the rounded 0.007; in bytes it is 0.0406.
PRINTED = {
    "no-reh": 0.007,
    "reh": 7.063,
    "RePR": 0.023,
    "online-ewc": 0.014,
    "PR": 0.023,
    "DGDMN": 0.023,
    "reh-limit": 0.024,
    "reh-limit-comp": 0.024,
}


def test_the_memory_column_is_the_papers():
    chains = {name: build_chain(CONDITIONS[name], ATARI, 0, PAPER) for name in MAIN}
    printed = {name: round(memory_bytes(chain, 3) / GB, 3) for name, chain in chains.items() if name != "ewc"}
    assert printed == PRINTED
    ewc, dqn = memory_bytes(chains["ewc"], 3), memory_bytes(chains["no-reh"], 3)
    assert ewc == 6 * dqn  # the paper prints 6 x 0.007 = 0.042
    assert round(6 * round(dqn / GB, 3), 3) == 0.042
    assert memory_bytes(chains["reh"], 3) == 250_000 * 28_224 + 4 * 1_693_362


def test_the_limited_store_of_the_arcade_preset_has_the_generators_bytes():
    generator = PseudoRehearsal().num_bytes(ARCADE, 6, 3)
    assert generator // item_bytes(ARCADE) == RETENTIONS.configure("limited-rehearsal", ARCADE).capacity


@pytest.mark.parametrize("name", MAIN)
def test_no_memory_grows_with_the_tasks_except_that_of_ewc(name):
    chain = build_chain(CONDITIONS[name], ATARI, 0, PAPER)
    assert (memory_bytes(chain, 6) == memory_bytes(chain, 2)) == (name != "ewc")


def test_the_extended_and_short_variants():
    extended, short = VARIANTS["extended"](PAPER), VARIANTS["short"](PAPER)
    assert extended.long_term.agent_steps == 40_000_000
    assert generator_for(extended).steps == 400_000
    assert [extended.long_term.alpha_for(task) for task in (2, 3, 4, 5, 6)] == [0.05, 0.05, 0.05, 0.01, 0.01]
    assert short.long_term.agent_steps == 5_000_000
    assert short.short_term == PAPER.short_term


def test_a_fraction_scales_durations_and_nothing_else():
    tenth = at_fraction(PAPER, 0.1)
    assert tenth.short_term.agent_steps == 2_000_000
    assert generator_for(tenth).steps == 20_000
    assert tenth.training.exploration_steps == 100_000
    assert tenth.training.learning_starts == 5_000
    assert tenth.evaluation.interval == 100_000
    assert tenth.short_term.best_window == 25_000
    assert tenth.training.replay_capacity == 200_000
    assert tenth.short_term.target_update_interval == 5_000
    assert tenth.generator.pseudo_items == 25_000  # a temporary array: filling it takes time
    assert RETENTIONS.configure("rehearsal", tenth).capacity == 250_000
    assert tenth.optimiser == PAPER.optimiser
    assert at_fraction(PAPER, 0.0005).evaluation.interval == PAPER.evaluation.min_interval

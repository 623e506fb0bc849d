"""The GAN's generator network."""

import torch

from reaper.generators.gan.generator import GeneratorNetwork, initialise_adversarial


def test_generated_states_do_not_depend_on_their_neighbours():
    generator = GeneratorNetwork(16, 2, 8)
    initialise_adversarial(generator, torch.Generator().manual_seed(0))
    many = generator.sample(6, torch.Generator().manual_seed(1))
    few = generator.sample(3, torch.Generator().manual_seed(1))
    assert (many.shape, many.dtype) == ((6, 2, 16, 16), torch.uint8)
    assert torch.equal(many[:3], few)

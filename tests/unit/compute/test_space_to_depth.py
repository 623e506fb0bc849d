"""Space-to-depth: the same sums as strided convolutions, checked in float64."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from reaper.compute.space_to_depth import (
    conv2d,
    conv2d_input_gradient,
    conv2d_space_to_depth,
    deconv2d_between_depths,
    deconv2d_to_depth,
    depth_to_space,
    pays_off,
    space_to_depth,
)
from reaper.config.presets import PAPER
from reaper.equations import score_gradients
from reaper.generators.gan.discriminator import Discriminator
from reaper.generators.gan.generator import GeneratorNetwork, initialise_adversarial
from reaper.networks.convolutional import ConvQNetwork
from reaper.tasks.observation import state_spec

ATARI_STATE = state_spec(PAPER.observation)

CONVOLUTIONS = [(8, 4, 0, 84), (4, 2, 0, 20), (5, 3, 1, 84), (5, 2, 2, 28), (4, 2, 1, 16)]


def normal(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def test_space_to_depth_turns_each_block_into_one_pixel():
    frame = torch.arange(16.0).view(1, 1, 4, 4)
    assert space_to_depth(frame, 2)[0, :, 0, 1].tolist() == [2, 3, 6, 7]  # the upper right block, row by row
    assert torch.equal(depth_to_space(space_to_depth(frame, 2), 2), frame)


@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), CONVOLUTIONS)
def test_convolution(kernel, stride, padding, side):
    images, weight, bias = normal(2, 3, side, side), normal(5, 3, kernel, kernel), normal(5)
    assert pays_off(nn.Conv2d(3, 5, kernel, stride, padding))
    expected = functional.conv2d(images, weight, bias, stride, padding)
    torch.testing.assert_close(conv2d_space_to_depth(images, weight, bias, stride, padding), expected)


@pytest.mark.parametrize("side", [16, 17, 18])  # no kernel may cover the last pixels
def test_convolution_whose_stride_does_not_divide_its_kernel(side):
    images, weight = normal(2, 3, side, side), normal(5, 3, 5, 5)
    expected = functional.conv2d(images, weight, None, 3)
    torch.testing.assert_close(conv2d_space_to_depth(images, weight, None, 3), expected)


def test_layers_that_stay_strided():
    assert not pays_off(nn.Conv2d(64, 5, 5, 2))  # 2 does not divide 5, and there are enough channels
    assert not pays_off(nn.Conv2d(3, 5, 3, 1))  # no stride


@pytest.mark.parametrize(("stride", "padding", "side"), [(3, 1, 7), (2, 2, 21), (1, 2, 9)])
def test_deconvolution_to_depth(stride, padding, side):
    images, weight, bias = normal(2, 3, side, side), normal(3, 6, 5, 5), normal(6)
    more = 2 * padding - (5 - stride)
    expected = functional.conv_transpose2d(images, weight, bias, stride, padding, more)
    torch.testing.assert_close(
        depth_to_space(deconv2d_to_depth(images, weight, bias, stride, padding), stride), expected
    )


@pytest.mark.parametrize("more", [1, 2, 3])
def test_deconvolution_between_depths(more):
    images, weight = normal(2, 3, 12, 12), normal(3, 6, 5, 5)
    expected = functional.conv_transpose2d(images, weight, None, 1, 2)
    outputs = deconv2d_between_depths(space_to_depth(images, 2), weight, 2, more)
    torch.testing.assert_close(depth_to_space(outputs, 2 * more), expected)


@pytest.mark.parametrize("channels", [3, 16])  # few, and enough to stay strided
@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), CONVOLUTIONS[2:])
def test_input_gradient_of_a_convolution(kernel, stride, padding, side, channels):
    layer = nn.Conv2d(channels, 5, kernel, stride, padding).double()
    images = normal(2, channels, side, side).requires_grad_()
    outputs = layer(images)
    torch.testing.assert_close(conv2d(layer, images), outputs)
    gradients = normal(*outputs.shape)
    (expected,) = torch.autograd.grad(outputs, images, gradients)
    torch.testing.assert_close(conv2d_input_gradient(layer, gradients), expected)


@pytest.mark.parametrize("training", [True, False])
def test_the_generator_by_space_to_depth(training):
    """Running statistics included, with biases and normalisation away from their initial values."""
    plain = GeneratorNetwork(84, 4, 10).double()
    initialise_adversarial(plain, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter += 0.1 * normal(*parameter.shape)
    blocked, latents = copy.deepcopy(plain), normal(2, 10)
    plain.train(training), blocked.train(training)
    torch.testing.assert_close(blocked.forward_space_to_depth(latents), plain(latents))
    for one, other in zip(blocked.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_discriminator_by_space_to_depth_its_input_gradients_and_their_gradients():
    discriminator, states = Discriminator(84, 4).double(), normal(2, 4, 84, 84)
    torch.testing.assert_close(discriminator.forward_space_to_depth(states), discriminator(states))
    expected = score_gradients(discriminator.layers, states)
    gradients = discriminator.input_gradients_space_to_depth(states)
    torch.testing.assert_close(gradients, expected)
    weights = [p for name, p in discriminator.named_parameters() if name.endswith("weight")]
    twice = torch.autograd.grad(expected.square().sum(), weights)  # second derivatives
    once = torch.autograd.grad(gradients.square().sum(), weights)
    for one, other in zip(once, twice, strict=True):
        torch.testing.assert_close(one, other)


def test_the_q_network_by_space_to_depth():
    network, pixels = ConvQNetwork(ATARI_STATE, 18).double(), normal(2, 4, 84, 84)
    expected = network.values(torch.relu(network.hidden(network.features(pixels))))
    torch.testing.assert_close(network.forward_space_to_depth(pixels), expected)


def test_the_compute_dtype_is_of_activations_and_kernels_not_of_outputs():
    network, pixels = ConvQNetwork(ATARI_STATE, 18).double(), normal(2, 4, 84, 84)
    cast, exact = network.forward_space_to_depth(pixels, torch.float32), network.forward_space_to_depth(pixels)
    assert cast.dtype == torch.float64
    assert not torch.equal(cast, exact)
    torch.testing.assert_close(cast, exact, rtol=1e-4, atol=1e-6)

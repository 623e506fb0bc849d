"""Folded frames: the same sums as the strided convolutions, checked in double precision."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from reaper.compute.space_to_depth import (
    convolve,
    deconvolution_between_folded,
    fold,
    folded_convolution,
    folded_deconvolution,
    folds,
    slopes_of_convolution,
    unfold,
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


def test_folding_puts_each_block_into_one_pixel():
    frame = torch.arange(16.0).view(1, 1, 4, 4)
    assert fold(frame, 2)[0, :, 0, 1].tolist() == [2, 3, 6, 7]  # the upper right block, row by row
    assert torch.equal(unfold(fold(frame, 2), 2), frame)


@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), CONVOLUTIONS)
def test_folded_convolution(kernel, stride, padding, side):
    images, weight, bias = normal(2, 3, side, side), normal(5, 3, kernel, kernel), normal(5)
    assert folds(nn.Conv2d(3, 5, kernel, stride, padding))
    expected = functional.conv2d(images, weight, bias, stride, padding)
    torch.testing.assert_close(folded_convolution(images, weight, bias, stride, padding), expected)


@pytest.mark.parametrize("side", [16, 17, 18])  # the last pixels may meet no kernel
def test_folded_convolution_whose_stride_does_not_divide(side):
    images, weight = normal(2, 3, side, side), normal(5, 3, 5, 5)
    torch.testing.assert_close(folded_convolution(images, weight, None, 3), functional.conv2d(images, weight, None, 3))


def test_what_does_not_fold_is_told():
    assert not folds(nn.Conv2d(64, 5, 5, 2))  # five does not divide by two, and there are channels enough
    assert not folds(nn.Conv2d(3, 5, 3, 1))  # nothing to fold


@pytest.mark.parametrize(("stride", "padding", "side"), [(3, 1, 7), (2, 2, 21), (1, 2, 9)])
def test_folded_deconvolution(stride, padding, side):
    images, weight, bias = normal(2, 3, side, side), normal(3, 6, 5, 5), normal(6)
    more = 2 * padding - (5 - stride)
    expected = functional.conv_transpose2d(images, weight, bias, stride, padding, more)
    torch.testing.assert_close(unfold(folded_deconvolution(images, weight, bias, stride, padding), stride), expected)


@pytest.mark.parametrize("more", [1, 2, 3])
def test_a_deconvolution_between_folded_frames(more):
    images, weight = normal(2, 3, 12, 12), normal(3, 6, 5, 5)
    expected = functional.conv_transpose2d(images, weight, None, 1, 2)
    outputs = deconvolution_between_folded(fold(images, 2), weight, 2, more)
    torch.testing.assert_close(unfold(outputs, 2 * more), expected)


@pytest.mark.parametrize("channels", [3, 16])  # few are folded
@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), CONVOLUTIONS[2:])
def test_slopes_of_a_convolution(kernel, stride, padding, side, channels):
    layer = nn.Conv2d(channels, 5, kernel, stride, padding).double()
    images = normal(2, channels, side, side).requires_grad_()
    outputs = layer(images)
    torch.testing.assert_close(convolve(layer, images), outputs)
    slopes = normal(*outputs.shape)
    (expected,) = torch.autograd.grad(outputs, images, slopes)
    torch.testing.assert_close(slopes_of_convolution(layer, slopes), expected)


@pytest.mark.parametrize("training", [True, False])
def test_the_generator_on_folded_frames(training):
    """Also its running statistics, and with biases and normalisation that are not as drawn."""
    plain = GeneratorNetwork(84, 4, 10).double()
    initialise_adversarial(plain, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter += 0.1 * normal(*parameter.shape)
    folded, latents = copy.deepcopy(plain), normal(2, 10)
    plain.train(training), folded.train(training)
    torch.testing.assert_close(folded.folded(latents), plain(latents))
    for one, other in zip(folded.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_discriminator_on_folded_frames_its_slopes_and_their_gradients():
    discriminator, states = Discriminator(84, 4).double(), normal(2, 4, 84, 84)
    torch.testing.assert_close(discriminator.folded(states), discriminator(states))
    expected, slopes = score_gradients(discriminator.layers, states), discriminator.folded_slopes(states)
    torch.testing.assert_close(slopes, expected)
    weights = [p for name, p in discriminator.named_parameters() if name.endswith("weight")]
    twice = torch.autograd.grad(expected.square().sum(), weights)  # derivatives of derivatives
    once = torch.autograd.grad(slopes.square().sum(), weights)
    for one, other in zip(once, twice, strict=True):
        torch.testing.assert_close(one, other)


def test_the_q_network_on_folded_frames():
    network, pixels = ConvQNetwork(ATARI_STATE, 18).double(), normal(2, 4, 84, 84)
    expected = network.values(torch.relu(network.hidden(network.features(pixels))))
    torch.testing.assert_close(network.forward_space_to_depth(pixels), expected)


def test_rounding_is_of_maps_and_kernels_not_of_the_outputs():
    network, pixels = ConvQNetwork(ATARI_STATE, 18).double(), normal(2, 4, 84, 84)
    rounded, exact = network.forward_space_to_depth(pixels, torch.float32), network.forward_space_to_depth(pixels)
    assert rounded.dtype == torch.float64
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=1e-4, atol=1e-6)

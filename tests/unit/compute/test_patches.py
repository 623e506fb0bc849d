"""Patch layers compute what the plain strided layers compute."""

import pytest
import torch
from torch import nn

from reaper.compute.patches import PatchConvolution, PatchDeconvolution


@pytest.mark.parametrize("kernel", [2, 3])
def test_patch_layers_equal_the_plain_ones(kernel):
    torch.manual_seed(0)
    images = torch.randn(3, 4, 6, 6)
    patched, plain = PatchConvolution(4, 5, kernel), nn.Conv2d(4, 5, kernel, kernel)
    plain.load_state_dict(patched.state_dict())
    torch.testing.assert_close(patched(images), plain(images))
    patched, plain = PatchDeconvolution(4, 5, kernel), nn.ConvTranspose2d(4, 5, kernel, kernel)
    plain.load_state_dict(patched.state_dict())
    torch.testing.assert_close(patched(images), plain(images))

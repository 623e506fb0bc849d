"""The GAN equations against numbers worked out by hand."""

import pytest
import torch
from torch import nn

from reaper.equations import (
    disc_loss,
    gan_data,
    gen_loss,
    gradient_norms,
    interpolate,
    noisy,
    rescale,
    score_gradients,
    unscale,
)

torch.set_num_threads(1)


@pytest.mark.parametrize("tasks", [2, torch.tensor(2)])
def test_gan_data_takes_a_new_item_below_one_over_tasks(tasks) -> None:
    new = torch.full((4, 2, 3, 3), 1, dtype=torch.uint8)
    pseudo = torch.full((4, 2, 3, 3), 9, dtype=torch.uint8)
    mixed = gan_data(new, pseudo, torch.tensor([0.0, 0.49, 0.5, 0.99]), tasks)  # 1 / T = 0.5, which itself is not below
    assert mixed.dtype == torch.uint8
    assert mixed.shape == new.shape
    assert mixed.flatten(1).unique(dim=1).tolist() == [[1], [1], [9], [9]]  # whole items, never a mixture


def test_gan_data_of_the_first_task_is_all_new() -> None:
    new, pseudo = torch.ones(3, 2), torch.zeros(3, 2)
    assert gan_data(new, pseudo, torch.tensor([0.0, 0.5, 1 - 2**-24]), 1).equal(new)


def test_disc_loss() -> None:
    loss = disc_loss(
        torch.tensor([2.0, 0.0]), torch.tensor([1.0, -1.0]), torch.tensor([1.5, 1.0]), penalty=10.0, drift=0.1
    )
    # 1 - 2 + 10 * 0.5^2 + 0.1 * 2^2 + 0.1 * 1^2 = 2.0      -1 - 0 + 0 + 0 + 0.1 * (-1)^2 = -0.9      mean 0.55
    assert loss.item() == pytest.approx(0.55)


def test_disc_loss_has_the_papers_constants() -> None:
    loss = disc_loss(torch.tensor([1000.0]), torch.tensor([0.0]), torch.tensor([2.0]))
    # 0 - 1000 + 10 * (2 - 1)^2 + 1e-6 * 1000^2 = -1000 + 10 + 1
    assert loss.item() == pytest.approx(-989.0)


def test_gen_loss() -> None:
    assert gen_loss(torch.tensor([1.0, -2.0, 4.0])).item() == -1.0  # -(1 - 2 + 4) / 3


def test_gradient_penalty_of_a_linear_discriminator_and_its_double_backward() -> None:
    discriminator = nn.Linear(2, 1)
    with torch.no_grad():
        discriminator.weight.copy_(torch.tensor([[3.0, 4.0]]))
    norms = gradient_norms(score_gradients(discriminator, torch.randn(6, 2)))
    torch.testing.assert_close(norms, torch.full((6,), 5.0))  # sqrt(3^2 + 4^2) at every point
    zeros = torch.zeros(6)
    loss = disc_loss(zeros, zeros, norms)
    assert loss.item() == pytest.approx(160.0)  # 10 * (5 - 1)^2
    loss.backward()
    # d/dw 10 (|w| - 1)^2 = 20 (|w| - 1) w / |w| = 80 * (0.6, 0.8)
    torch.testing.assert_close(discriminator.weight.grad, torch.tensor([[48.0, 64.0]]))


def test_gradient_norms_are_per_item_over_all_of_an_image() -> None:
    images = torch.zeros(2, 1, 2, 2)
    images[0, 0] = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    images[1, 0, 0, 0] = -3.0
    norms = gradient_norms(score_gradients(lambda x: x.square().flatten(1).sum(1) / 2, images))  # gradient at x: x
    torch.testing.assert_close(norms, torch.tensor([5.0, 3.0]))  # sqrt(1 + 4 + 4 + 16), 3


def test_gradient_norms_double_backward_is_finite_where_the_gradient_is_zero() -> None:
    discriminator = nn.Linear(2, 1)
    nn.init.zeros_(discriminator.weight)
    (gradient_norms(score_gradients(discriminator, torch.randn(3, 2))) - 1).square().mean().backward()
    assert discriminator.weight.grad is not None
    assert discriminator.weight.grad.isfinite().all()


def test_gradient_norms_pass_no_gradient_to_the_generator() -> None:
    generated = torch.randn(3, 2, requires_grad=True)
    weight = torch.tensor([1.0, -2.0], requires_grad=True)
    gradient_norms(score_gradients(lambda x: (x @ weight) ** 2, generated * 2)).sum().backward()
    assert generated.grad is None
    assert weight.grad is not None


def test_interpolate_draws_one_point_for_each_pair() -> None:
    real, fake = torch.full((3, 1, 2), 10.0), torch.full((3, 1, 2), 2.0)
    points = interpolate(real, fake, torch.tensor([0.0, 0.25, 1.0]))
    # 2      0.25 * 10 + 0.75 * 2 = 4      10
    assert points.tolist() == [[[2.0, 2.0]], [[4.0, 4.0]], [[10.0, 10.0]]]


def test_rescale_maps_pixels_to_the_range_of_tanh() -> None:
    torch.testing.assert_close(rescale(torch.tensor([0.0, 127.5, 255.0])), torch.tensor([-1.0, 0.0, 1.0]))
    # 2 * (51 / 255 - 0.5) = 2 * (0.2 - 0.5) = -0.6
    torch.testing.assert_close(rescale(torch.tensor([51], dtype=torch.uint8)), torch.tensor([-0.6]))


def test_unscale_undoes_rescale_for_every_pixel() -> None:
    torch.testing.assert_close(unscale(torch.tensor([-1.0, -0.6, 0.0, 1.0])), torch.tensor([0.0, 51.0, 127.5, 255.0]))
    pixels = torch.arange(256, dtype=torch.uint8)
    assert unscale(rescale(pixels)).round().to(torch.uint8).equal(pixels)


def test_noise_is_on_the_raw_pixel_scale_and_never_wraps() -> None:
    pixels = torch.tensor([0, 250], dtype=torch.uint8)
    # 0 + 10 * (-1) = -10      250 + 10 * 0.75 = 257.5
    assert noisy(pixels, torch.tensor([-1.0, 0.75])).tolist() == [-10.0, 257.5]
    assert noisy(pixels, torch.tensor([-1.0, 0.75]), amplitude=0.0).tolist() == [0.0, 250.0]

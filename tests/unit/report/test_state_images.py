"""Images of states."""

from __future__ import annotations

import numpy as np

from reaper.report.state_images import mosaic


def test_mosaic_has_every_pixel():
    frames = np.arange(5 * 4).reshape(5, 2, 2)
    pixels = mosaic(frames, rows=2, columns=3)
    assert pixels.shape == (5, 8)
    np.testing.assert_array_equal(pixels[3:5, 3:5], frames[4])
    assert np.isnan(pixels[3:5, 6:]).all()

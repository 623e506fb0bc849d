"""The nine conditions of the main table can be told apart in colour, by colour-blind readers and in grey."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from reaper.report.theme import DARK, LIGHT, style_of
from reaper.study.conditions import CONDITIONS, MAIN

# Machado, Oliveira and Fernandes (2009), severity 1: what linear RGB looks like without one kind of cone.
SIGHT = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    values = np.array(to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(colour: str, sight: str) -> np.ndarray:
    """CIELAB of a colour as it is seen: differences of 2 are just visible side by side, of 10 at a glance."""
    xyz = TO_XYZ @ np.clip(SIGHT[sight] @ linear(colour), 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def luminance(colour: str) -> float:
    return float(TO_XYZ[1] @ linear(colour))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_colours_differ_at_a_glance(theme, sight):
    for one, other in combinations(theme.colours, 2):
        gap = np.linalg.norm(lab(one, sight) - lab(other, sight))
        assert gap > 10, f"{one} and {other}: {gap:.1f}"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_stand_out_from_the_background(theme):
    background = luminance(theme.background)
    for colour in theme.colours:
        lighter, darker = sorted((background, luminance(colour)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 2.2


def test_line_and_marker_tell_conditions_apart_without_colour():
    looks = [(str(style.line), style.marker) for name in MAIN for style in [style_of(name, LIGHT)]]
    assert len(set(looks)) == len(MAIN)
    assert len({marker for _, marker in looks}) == len(MAIN), "by the marker alone, too"
    assert len({style_of(name, LIGHT).colour for name in MAIN}) == len(MAIN)


def test_a_control_outside_the_main_table_has_its_own_style():
    styles = [style_of(name, LIGHT) for name in (*MAIN, "RePR-untrained")]
    assert "RePR-untrained" in CONDITIONS
    assert len({style.colour for style in styles}) == len(styles)

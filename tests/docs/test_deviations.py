"""The page on deviations: its numbering, what other pages call its points, and its figures, against the code."""

from __future__ import annotations

import re

import pytest
import torch
from doc_pages import PAGES, ROOT

from reaper.config.presets import PAPER
from reaper.generators.gan.discriminator import Discriminator
from reaper.generators.gan.generator import GeneratorNetwork
from reaper.learning.exploration import epsilon_at
from reaper.learning.short_term import VALUE_STATES
from reaper.memory.replay import Replay
from reaper.paper.results import QUOTED_RATIOS, average_ratio
from reaper.retention import CompressedRehearsal
from reaper.tasks.atari import EMULATOR_SETTINGS
from reaper.tasks.observation import state_spec

PAGE = (ROOT / "docs/deviations.md").read_text()
POINTS = {
    int(n): " ".join(text.split()) for n, text in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^\S|\Z)", PAGE, re.M | re.S)
}
TRAINING = PAPER.training


def point(title: str) -> str:
    """The text of the point that begins with these words."""
    (found,) = [text for text in POINTS.values() if text.startswith(f"**{title}")]
    return found


def test_points_are_numbered_one_after_another():
    assert list(POINTS) == list(range(1, len(POINTS) + 1))


def test_other_files_call_points_by_their_number():
    sources = [*PAGES, *(ROOT / "src").rglob("*.py")]
    named = [n for path in sources for n in re.findall(r"(?<!standard )\b[Dd]eviation (\d+)\b", path.read_text())]
    assert named
    assert {POINTS[int(n)].partition(":")[0] for n in named} == {"**Acting weights**"}


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Optimiser", f"we clip at {PAPER.optimiser.max_grad_norm:g} "),
        ("Standardised Q-values", f"for {VALUE_STATES:,} states"),
        ("Emulator", f"`noop_max` {EMULATOR_SETTINGS['noop_max'].value}"),
        ("Emulator", f"`repeat_action_probability` {EMULATOR_SETTINGS['repeat_action_probability'].value:g}"),
        ("Students from scratch", f"({PAPER.generator.pseudo_items:,} at paper scale"),
        ("Students from scratch", f"has {PAPER.generator.pseudo_items // 3:,} real items of each"),
        ("Students from scratch", f"the replay of {TRAINING.replay_capacity:,}"),
        ("Exploration is counted from step 0", f"after {TRAINING.exploration_steps:,}"),
        ("Exploration is counted from step 0", f"{epsilon_at(TRAINING.learning_starts, TRAINING):g} right then"),
        ("Compressed items", f"{CompressedRehearsal().capacity} items on Atari: 16.9 MB"),
        ('"Of single"', f"{QUOTED_RATIOS['reh']:.0%}".replace("%", " %")),
        ("Reset boundaries", f"every {TRAINING.reset_interval:,} agent steps"),
        ("Best weights", f"only when {TRAINING.best_episodes} episodes"),
    ],
)
def test_figures_are_those_of_the_code(title, words):
    assert words in point(title)


def test_exploration_is_counted_from_the_first_step():
    assert epsilon_at(TRAINING.learning_starts - 1, TRAINING) == 1.0
    assert epsilon_at(TRAINING.exploration_steps, TRAINING) == pytest.approx(TRAINING.final_epsilon)


def test_agents_without_a_replay_to_fill_make_so_many_updates_more():
    steps, per_update = PAPER.long_term.agent_steps, TRAINING.steps_per_update
    assert f"{steps // per_update:,} updates" in point("Additional updates of `DGDMN`")
    assert f"{TRAINING.learning_starts // per_update:,} (0.25 %) more" in point("Additional updates of `DGDMN`")


def test_a_student_of_one_task_has_fewer_real_than_generated_items():
    replay = Replay(TRAINING.replay_capacity // 1000, TRAINING.num_envs // 32, state_spec(PAPER.observation))
    replay.size[:] = replay.slots  # a full ring, smaller than the paper's
    lost = TRAINING.num_envs * int(replay.slots - replay.sampleable()[0])
    assert lost == 384  # "a few hundred"
    largest = (TRAINING.replay_capacity - lost) / PAPER.generator.pseudo_items
    assert f"a `fraction` of {int(100 * largest) / 100:g} or less" in point("Students from scratch")


def test_the_share_of_single_is_that_of_the_paper():
    assert average_ratio("reh") == pytest.approx(QUOTED_RATIOS["reh"], abs=0.01)
    assert average_ratio("RePR") == pytest.approx(QUOTED_RATIOS["RePR"], abs=0.01)


def test_stride_two_layers_are_padded_at_the_other_side_than_tensorflows():
    generator, discriminator = GeneratorNetwork(84, 4, 100), Discriminator(84, 4)
    strided = [layer for layer in generator.layers if isinstance(layer, torch.nn.ConvTranspose2d)]
    assert [layer.stride[0] for layer in strided] == [3, 2, 2, 1]
    for layer, cropped in zip(strided, [(1, 1), (2, 1), (2, 1), (2, 2)], strict=True):
        assert (
            layer.padding[0],
            layer.padding[0] - layer.output_padding[0],
        ) == cropped  # top and left, bottom and right
    convolutions = [pair[0] for pair in discriminator.pairs()]
    assert [(layer.stride[0], layer.padding[0]) for layer in convolutions] == [(3, 1), (2, 2), (2, 2)]
    with torch.no_grad():  # of the two rows below an image of 28 rows, the windows of its 14 outputs reach the first
        reached = [
            bool((convolutions[1](_spot(at)) - convolutions[1](_spot(None)))[..., :14, :].any()) for at in (28, 29)
        ]
    assert reached == [True, False]


def _spot(row: int | None) -> torch.Tensor:
    """An image of 28 rows and two more below it, black but for one of its rows."""
    image = torch.zeros(1, 64, 30, 28)
    if row is not None:
        image[:, :, row] = 1.0
    return image


def test_batch_normalisation_is_per_channel_after_the_fully_connected_layer():
    normalised = [m for m in GeneratorNetwork(84, 4, 100).layers if isinstance(m, torch.nn.BatchNorm2d)]
    assert f"normalise its {normalised[0].num_features} channels" in point("GAN")
    assert f"{normalised[0].num_features * 49:,} units" in point("GAN")

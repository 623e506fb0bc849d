"""Figures of the paper's experiments: learning curves, real and generated states, and scores against alpha."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from reaper.report.curves import groups_with_equal_phases, learning_curves
from reaper.report.experiment_data import ExperimentData
from reaper.report.real_states import stored_states
from reaper.report.rendering import Draw
from reaper.report.scores import gather_scores
from reaper.report.state_images import mosaic
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure, remove_frame, style_of

CURVES = "Only the conditions of this experiment; the task changes at the dashed lines."
STATES = (
    "The first frame of real states (left) and of states generated after the last task (right), one row per task. A "
    "generated state is in the row of the real state that it is nearest to."
)
ALPHAS = (
    "Normalised scores after two tasks against alpha, the weight of the new task: a good alpha has both scores high. 0 "
    "is random play, 1 is a DQN trained on that task alone."
)


def curves(data: ExperimentData) -> dict[str, Draw]:
    """Nothing where the page already shows the same conditions."""
    own = {(result.sequence, result.name) for result in data.results}
    present = {(run.sequence, run.condition_name) for run in data.store.runs() if run.memories}
    if {pair for pair in present if pair[0] == data.sequence} <= own:
        return {}
    gathered = gather_scores(data.results)

    def draw(theme: Theme) -> Figure | None:
        drawn = (
            learning_curves(scores, group, theme) for scores in gathered for group in groups_with_equal_phases(scores)
        )
        return next(drawn, None)

    return {CURVES: draw}


# -- item-quality


def nearest_task(generated: np.ndarray, real: Mapping[str, np.ndarray]) -> list[str]:
    """For each generated state the task of the nearest real state, by the mean squared difference."""
    tasks = [task for task, states in real.items() for _ in states]
    known = np.concatenate([states.reshape(len(states), -1) for states in real.values()]).astype(np.float32)
    flat = generated.reshape(len(generated), -1).astype(np.float32)
    return [tasks[int(((known - state) ** 2).mean(axis=1).argmin())] for state in flat]


def states(data: ExperimentData) -> dict[str, Draw]:
    """Real and generated states of the first seed that has both."""
    for result in data.results:
        real = {
            title: found
            for title, digest in zip(result.titles, result.record.teachers, strict=True)
            if (found := _stored(data, digest, "real")) is not None
        }
        generated = _stored(data, result.record.memories[-1], "generated")
        if generated is not None and len(real) == len(result.titles):
            return {STATES: lambda theme, real=real, made=generated: real_and_generated(real, made, theme)}
    return {}


def _stored(data: ExperimentData, digest: str, name: str) -> np.ndarray | None:
    return stored_states(data.store.stage(digest), name) if data.store.has(digest) else None


def real_and_generated(
    real: Mapping[str, np.ndarray], generated: np.ndarray, theme: Theme = LIGHT, columns: int = 8
) -> Figure:
    """Two blocks of images, one row per task."""
    nearest = nearest_task(generated, real)
    height = 0.34 + 0.42 * len(real)
    figure = new_figure(WIDTH, height)
    axes = figure.subplots(len(real), 2, squeeze=False)
    colours = mpl.colormaps["gray"].with_extremes(bad=theme.background)
    for row, (title, examples) in enumerate(real.items()):
        alike = generated[[place for place, task in enumerate(nearest) if task == title]]
        for column, shown in enumerate((examples, alike)):
            strip = mosaic(shown[:columns, 0], 1, columns)
            axes[row, column].imshow(strip, cmap=colours, vmin=0, vmax=255)
            remove_frame(axes[row, column])
        axes[row, 0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=8.5, color=theme.text)
    for column, title in enumerate(("real", "generated")):
        axes[0, column].set_title(title, fontsize=9.5)
    figure.subplots_adjust(left=0.13, right=0.995, top=1 - 0.26 / height, bottom=0.01)
    return figure


# -- importance


def alphas(data: ExperimentData) -> dict[str, Draw]:
    """Normalised scores on the first and the second of two tasks, with and without a short-term system."""
    runs = [run for run in data.results if len(run.tasks) == 2 and not np.isnan(run.matrix[-1]).any()]
    if len({run.settings.long_term.alpha for run in runs}) < 2:
        return {}

    def draw(theme: Theme) -> Figure:
        figure = new_figure(WIDTH, 2.3, layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, place in zip(panels, (0, 1), strict=True):
            for base in ("PR", "RePR"):
                own = [run for run in runs if run.condition["base"] == base]
                known = sorted({run.settings.long_term.alpha for run in own})
                means = [
                    np.mean([run.matrix[-1, place] for run in own if run.settings.long_term.alpha == alpha])
                    for alpha in known
                ]
                axes.plot(known, means, label=base, **style_of(base, theme).plot_args)
            axes.set_title(f"{data.titles[place]}, {'learnt first' if place == 0 else 'learnt second'}")
            axes.set_xlabel("alpha")
        panels[0].set_ylabel("normalised score")
        panels[0].legend()
        return figure

    return {ALPHAS: draw}


EXPERIMENT_FIGURES: Mapping[str, Callable[[ExperimentData], dict[str, Draw]]] = {
    "scores": curves,
    "students": states,
    "importance": alphas,
}

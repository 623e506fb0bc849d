"""The figures of the paper's experiments: real beside dreamt states, learning curves, and scores against alpha."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from reaper.errors import DamagedArtefact
from reaper.report.curves import groups_with_equal_phases, learning_curves
from reaper.report.experiment_data import ExperimentData
from reaper.report.scores import gather_scores
from reaper.report.theme import LIGHT, WIDTH, Theme, new_figure, remove_frame, style_of

Draw = Callable[[Theme], Figure | None]
CURVES = "The conditions of this experiment alone; the task changes at the dashed lines."
DREAMS = (
    "The first frame of real states (left) and of states dreamt after the last task (right), a row a task. A dreamt "
    "state stands in the row of the real state it is nearest to."
)
ALPHAS = (
    "After two tasks, against the weight of the new task: a good alpha has both lines high. 0 is random play, 1 a DQN "
    "trained on that task alone."
)


def curves(material: ExperimentData) -> dict[str, Draw]:
    """None where the page draws the same conditions already."""
    sequences = {(result.sequence, result.name) for result in material.results}
    present = {(run.sequence, run.condition_name) for run in material.store.runs() if run.memories}
    alike = {pair for pair in present if pair[0] == material.sequence}
    if alike <= sequences:
        return {}
    gathered = gather_scores(material.results)

    def draw(theme: Theme) -> Figure | None:
        drawn = (
            learning_curves(scores, some, theme) for scores in gathered for some in groups_with_equal_phases(scores)
        )
        return next(drawn, None)

    return {CURVES: draw}


# -- item-quality


def nearest_task(dreamt: np.ndarray, real: Mapping[str, np.ndarray]) -> list[str]:
    """For each dreamt state the task of the real state it differs least from, by the mean squared difference."""
    tasks = [task for task, states in real.items() for _ in states]
    known = np.concatenate([states.reshape(len(states), -1) for states in real.values()]).astype(np.float32)
    asked = dreamt.reshape(len(dreamt), -1).astype(np.float32)
    return [tasks[int(((known - state) ** 2).mean(axis=1).argmin())] for state in asked]


def pictures(material: ExperimentData) -> dict[str, Draw]:
    """Real and dreamt states of the first seed that has both."""
    for result in material.results:
        real = {
            title: states
            for title, digest in zip(result.titles, result.record.teachers, strict=True)
            if (states := _states(material, digest, "real")) is not None
        }
        dreamt = _states(material, result.record.memories[-1], "dreamt")
        if dreamt is not None and len(real) == len(result.titles):
            return {DREAMS: lambda theme, real=real, dreamt=dreamt: real_and_dreamt(real, dreamt, theme)}
    return {}


def _states(material: ExperimentData, digest: str, name: str) -> np.ndarray | None:
    store = material.store
    if not (store.has(digest) and store.stage(digest).has("pictures.safetensors")):
        return None
    states = store.stage(digest).tensors("pictures").get(name)
    if states is not None and (states.ndim != 4 or 0 in states.shape):
        raise DamagedArtefact(store.path_of(digest) / "pictures.safetensors", "holds no pictures")
    return None if states is None else states.numpy()


def real_and_dreamt(
    real: Mapping[str, np.ndarray], dreamt: np.ndarray, theme: Theme = LIGHT, columns: int = 8
) -> Figure:
    """Two blocks of pictures, a row a task."""
    nearest = nearest_task(dreamt, real)
    figure = new_figure(WIDTH, 0.34 + 0.42 * len(real))
    axes = figure.subplots(len(real), 2, squeeze=False)
    colours = mpl.colormaps["gray"].with_extremes(bad=theme.ground)
    for row, (title, states) in enumerate(real.items()):
        mine = dreamt[[place for place, task in enumerate(nearest) if task == title]]
        for column, found in enumerate((states, mine)):
            axes[row, column].imshow(_strip(found[:columns, 0], columns), cmap=colours, vmin=0, vmax=255)
            remove_frame(axes[row, column])
        axes[row, 0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=8.5, color=theme.ink)
    for column, title in enumerate(("real", "dreamt")):
        axes[0, column].set_title(title, fontsize=9.5)
    figure.subplots_adjust(left=0.13, right=0.995, top=1 - 0.26 / (0.34 + 0.42 * len(real)), bottom=0.01)
    return figure


def _strip(frames: np.ndarray, columns: int) -> np.ndarray:
    """Frames in a row with a pixel between them, NaN where there is none."""
    size = frames.shape[-1]
    strip = np.full((size, columns * (size + 1) - 1), np.nan)
    for place, frame in enumerate(frames):
        strip[:, place * (size + 1) : place * (size + 1) + size] = frame
    return strip


# -- importance


def alphas(material: ExperimentData) -> dict[str, Draw]:
    """The normalised scores on the old and the new of two tasks, with and without a second memory."""
    runs = [run for run in material.results if len(run.tasks) == 2 and not np.isnan(run.matrix[-1]).any()]
    if len({run.settings.long_term.alpha for run in runs}) < 2:
        return {}

    def draw(theme: Theme) -> Figure:
        figure = new_figure(WIDTH, 2.3, layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, place in zip(panels, (0, 1), strict=True):
            for base in ("PR", "RePR"):
                mine = [run for run in runs if run.condition["base"] == base]
                known = sorted({run.settings.long_term.alpha for run in mine})
                means = [
                    np.mean([run.matrix[-1, place] for run in mine if run.settings.long_term.alpha == alpha])
                    for alpha in known
                ]
                style = style_of(base, theme)
                axes.plot(known, means, color=style.colour, linestyle=style.line, marker=style.marker, label=base)
            axes.set_title(f"{material.titles[place]}, {'learnt first' if place == 0 else 'learnt second'}")
            axes.set_xlabel("alpha")
        panels[0].set_ylabel("normalised score")
        panels[0].legend()
        return figure

    return {ALPHAS: draw}


EXPERIMENT_FIGURES: Mapping[str, Callable[[ExperimentData], dict[str, Draw]]] = {
    "scores": curves,
    "students": pictures,
    "importance": alphas,
}

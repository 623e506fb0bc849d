"""The same curves, images and scores on wandb, with `--wandb`.

Every `reaper run` is one wandb run, in a group that its settings name. wandb cannot remove points: a study that is
resumed is a new run in the same group, whose curves start at the checkpoint.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from PIL.Image import Image

from reaper.errors import UserError
from reaper.monitoring.scores import TABLE_COLUMNS, RunScores, table_rows
from reaper.storage.files import canonical
from reaper.storage.store import Store


def find_wandb() -> Any:
    """The wandb package. Raises an error that tells how to install it."""
    try:
        return importlib.import_module("wandb")
    except ImportError:
        raise UserError("--wandb needs wandb: pip install 'reaper-rl[wandb]'") from None


class Wandb:
    """Feeds one wandb run."""

    label = "wandb curves"

    def __init__(self, store: Store, run_names: Sequence[str], runner: str) -> None:
        self._wandb = find_wandb()
        header, others = store.header.to_json(), len(run_names) - 1
        group = hashlib.sha256(canonical({"runs": sorted(run_names), **header}).encode()).hexdigest()[:8]
        try:
            self._run = self._wandb.init(
                project="reaper",
                group=f"reaper-{group}",
                name=f"{run_names[0]}{f' and {others} more' if others else ''} ({runner})",
                config={**header, "runs": list(run_names)},
                dir=str(store.folder),
                settings=self._wandb.Settings(console="off", disable_git=True, save_code=False),
            )
        except Exception as error:  # whatever wandb or the network raises
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"wandb does not start ({reason}); log in with `wandb login`, or stay on this machine with "
                "WANDB_MODE=offline"
            ) from None
        self._steps: dict[str, set[int]] = {}  # tag -> those that have been logged
        self._scores: dict[str, RunScores] = {}  # run -> its latest scores

    def truncate(self, stage_name: str, groups: Sequence[str], step: int) -> None:
        """wandb cannot remove points; `_log` leaves out repeated ones instead."""

    def add_scalars(self, stage_name: str, step: int, values: Mapping[str, float]) -> None:
        self._log({f"{stage_name}/{tag}": value for tag, value in values.items()}, step)

    def add_image(self, stage_name: str, tag: str, step: int, image: Image) -> None:
        self._log({f"{stage_name}/{tag}": self._wandb.Image(image)}, step)

    def lacks(self, stage_name: str, tag: str) -> bool:
        """Earlier wandb runs are not read back, so nothing is known to be missing."""
        return False

    def add_scores(self, scores: RunScores, matrix: Image | None) -> None:
        self._scores[scores.name] = scores
        for step, values in scores.points:
            self.add_scalars(scores.name, step, values)
        if matrix is not None:
            self.add_image(scores.name, "matrix/scores", scores.learnt, matrix)

    def _log(self, values: Mapping[str, Any], step: int) -> None:
        """Every group of curves has its own x-axis: agent steps, generator steps or tasks learnt. A score of an earlier
        agent may become known later."""
        new = {tag: value for tag, value in values.items() if step not in self._steps.get(tag, ())}
        axes = {}
        for tag in new:
            group = tag.rpartition("/")[0]
            if tag not in self._steps:
                self._run.define_metric(f"{group}/step", hidden=True)
                self._run.define_metric(tag, step_metric=f"{group}/step")
            self._steps.setdefault(tag, set()).add(step)
            axes[f"{group}/step"] = step
        if new:
            self._run.log({**new, **axes})

    def close(self, failed: bool) -> None:
        rows = [list(row) for scores in self._scores.values() for row in table_rows(scores)]
        if rows:
            self._run.log({"scores": self._wandb.Table(columns=list(TABLE_COLUMNS), data=rows)})
        self._run.finish(exit_code=1 if failed else 0)

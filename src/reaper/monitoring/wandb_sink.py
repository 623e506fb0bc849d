"""The same curves, pictures and scores on wandb, for those who ask for it with `--wandb`.

One wandb run for each time that `reaper run` is started, in a group for its settings: a run that goes on from a
checkpoint has curves that go on from there, and none that turn back.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from PIL.Image import Image

from reaper.errors import UserError
from reaper.monitoring.scores import TABLE, RunScores, table_rows
from reaper.storage.files import canonical
from reaper.storage.store import Store


def find_wandb() -> Any:
    """The package; without it, one line that says how to get it."""
    try:
        return importlib.import_module("wandb")
    except ImportError:
        raise UserError("--wandb needs wandb: pip install 'reaper-rl[wandb]'") from None


class Wandb:
    """Feeds one wandb run."""

    label = "wandb's curves"

    def __init__(self, store: Store, names: Sequence[str], runner: str) -> None:
        self.wandb = find_wandb()
        common = store.common
        group = hashlib.sha256(canonical({"runs": sorted(names), **common}).encode()).hexdigest()[:8]
        try:
            self.run = self.wandb.init(
                project="reaper",
                group=f"reaper-{group}",
                name=f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''} ({runner})",
                config={**common, "runs": list(names)},
                dir=str(store.folder),
                settings=self.wandb.Settings(console="off", disable_git=True, save_code=False),
            )
        except Exception as error:  # whatever wandb and the network think of
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"wandb does not start ({reason}); log in with `wandb login`, or keep it on this machine with "
                "WANDB_MODE=offline"
            ) from None
        self.last: dict[str, int] = {}
        self.known: dict[str, RunScores] = {}

    def forget(self, place: str, curves: Sequence[str], step: int) -> None:
        """wandb takes nothing back; what is repeated is left out instead."""

    def scalars(self, place: str, step: int, values: Mapping[str, float]) -> None:
        self._log({f"{place}/{tag}": value for tag, value in values.items()}, step)

    def image(self, place: str, tag: str, step: int, image: Image) -> None:
        self._log({f"{place}/{tag}": self.wandb.Image(image)}, step)

    def lacks(self, place: str, tag: str) -> bool:
        """What is there is not read back."""
        return False

    def scores(self, scores: RunScores, matrix: Image | None) -> None:
        self.known[scores.name] = scores
        for step, values in scores.points:
            self.scalars(scores.name, step, values)
        if matrix is not None:
            self.image(scores.name, "matrix/scores", scores.learnt, matrix)

    def _log(self, values: Mapping[str, Any], step: int) -> None:
        """Every curve has its own axis: agent steps, steps of a generator or tasks learnt."""
        new = {tag: value for tag, value in values.items() if self.last.get(tag, -1) < step}
        axes = {}
        for tag in new:
            family = tag.rpartition("/")[0]
            if tag not in self.last:
                self.run.define_metric(f"{family}/step", hidden=True)
                self.run.define_metric(tag, step_metric=f"{family}/step")
            self.last[tag] = step
            axes[f"{family}/step"] = step
        if new:
            self.run.log({**new, **axes})

    def close(self, failed: bool) -> None:
        rows = [list(row) for scores in self.known.values() for row in table_rows(scores)]
        if rows:
            self.run.log({"scores": self.wandb.Table(columns=list(TABLE), data=rows)})
        self.run.finish(exit_code=1 if failed else 0)

"""Everything that listens to a study beside the terminal: signs of life, TensorBoard, wandb."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reaper.engines.local import Listener
from reaper.monitoring.heartbeat import beating
from reaper.progress import Event
from reaper.storage.store import Store
from reaper.study.stages import Stage

if TYPE_CHECKING:
    from reaper.monitoring.recorder import Recorder


@contextmanager
def attending(
    store: Store, names: Sequence[str], listen: Listener, tensorboard: bool, wandb: bool, alone: bool = True
) -> Iterator[Listener]:
    """A listener that tells everyone, for as long as the runs with these names are at work; `alone`, no other process
    is at work on the folder."""
    latest: list[Stage] = []  # a remark is about a stage

    def warn(text: str) -> None:
        if latest:
            listen(latest[0], {"event": "remark", "text": text})

    with beating(store, warn) as pulses:
        recorders = [*_recorders(store, names, pulses.runner, tensorboard, wandb, warn, alone)]

        def tell(stage: Stage, event: Event) -> None:
            latest[:] = [stage]
            listen(stage, event)
            pulses(stage, event)
            for recorder in recorders:
                recorder(stage, event)

        failed = True
        try:
            yield tell
            failed = False
        finally:
            for recorder in recorders:
                recorder.close(failed)


def _recorders(
    store: Store,
    names: Sequence[str],
    runner: str,
    tensorboard: bool,
    wandb: bool,
    warn: Callable[[str], None],
    alone: bool,
) -> Iterator[Recorder]:
    """Imported here: commands that run nothing should not wait for what draws."""
    from reaper.monitoring.recorder import Recorder, TensorBoard
    from reaper.monitoring.wandb_sink import Wandb

    if tensorboard:
        yield Recorder(store, TensorBoard(store.folder / "tensorboard", runner), names, warn, alone)
    if wandb:
        yield Recorder(store, Wandb(store, names, runner), names, warn, alone)

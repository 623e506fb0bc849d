"""Everything that listens to a study: the terminal, the heartbeat, TensorBoard and wandb."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reaper.engines.base import Listener
from reaper.monitoring.heartbeat import Heartbeat
from reaper.progress import Event, Remark
from reaper.storage.store import Store
from reaper.study.kinds.base import Stage

if TYPE_CHECKING:
    from reaper.monitoring.recorder import Recorder


@contextmanager
def monitor(
    store: Store, run_names: Sequence[str], listen: Listener, *, tensorboard: bool = True, wandb: bool = False
) -> Iterator[Listener]:
    """Yields a listener that passes every event to `listen`, the heartbeat and the curves, while these runs are run."""
    latest: list[Stage] = []  # a warning is shown as a remark about the latest stage

    def warn(text: str) -> None:
        if latest:
            listen(latest[0], Remark(text))

    with Heartbeat(store, warn) as heartbeat:
        recorders = [*_recorders(store, run_names, heartbeat.runner, warn, tensorboard=tensorboard, wandb=wandb)]

        def dispatch(stage: Stage, event: Event) -> None:
            latest[:] = [stage]
            listen(stage, event)
            heartbeat(stage, event)
            for recorder in recorders:
                recorder(stage, event)

        failed = True
        try:
            yield dispatch
            failed = False
        finally:
            for recorder in recorders:
                recorder.close(failed)


def _recorders(
    store: Store,
    run_names: Sequence[str],
    runner: str,
    warn: Callable[[str], None],
    *,
    tensorboard: bool,
    wandb: bool,
) -> Iterator[Recorder]:
    """Imports inside: commands that run nothing should not wait for the plotting packages."""
    from reaper.monitoring.recorder import Recorder
    from reaper.monitoring.tensorboard_sink import TensorBoard
    from reaper.monitoring.wandb_sink import Wandb

    if tensorboard:
        yield Recorder(store, TensorBoard(store.folder / "tensorboard", runner), run_names, warn)
    if wandb:
        yield Recorder(store, Wandb(store, run_names, runner), run_names, warn)

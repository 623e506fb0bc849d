"""The Ray engine: runs the same stages as tasks on a Ray cluster. Ray itself is imported only when this engine runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from reaper.config.fields import positive, setting
from reaper.engines.base import Engine, Listener
from reaper.engines.resources import Resources
from reaper.engines.scheduler import Scheduler
from reaper.engines.signals import Stop
from reaper.errors import UserError
from reaper.storage.store import Store
from reaper.study.stages import Stage

STORES = ("shared", "fetch")


@dataclass(frozen=True)
class RayEngine(Engine):
    """Stages run as tasks of a Ray cluster; `--workers` is how many of them share a machine like this one."""

    remote: ClassVar[bool] = True

    address: str = setting("", "the cluster, as HOST:PORT or auto; if empty, one is started on this machine")
    store: str = setting("shared", "shared: all nodes see --out; fetch: files are sent to them", choices=STORES)
    gpus_per_stage: float = positive(1.0, "GPUs per stage where stages run on GPUs; 0.25 puts four stages on one")

    def __post_init__(self) -> None:
        gpus = self.gpus_per_stage
        if gpus > 1 and gpus != int(gpus):
            raise UserError(f"--ray.gpus-per-stage must be a share of one GPU (0.25) or a whole number, not {gpus}")
        if self.address.startswith("ray://"):
            raise UserError(
                f"--ray.address {self.address}: run reaper on a node of the cluster, with that node's HOST:PORT or auto"
            )

    def check(self, share: bool) -> None:
        if importlib.util.find_spec("ray") is None:
            raise UserError("--engine ray needs Ray: pip install 'reaper-rl[ray]'")
        if share and self.store == "fetch":
            raise UserError(
                "--ray.store fetch allows no other process in --out; leave out --share or use --ray.store shared"
            )

    def run(
        self, stages: Sequence[Stage], *, store: Store, resources: Resources, stop: Stop, listener: Listener
    ) -> None:
        from reaper.engines.ray_connection import check_fit, connected, resolve_device
        from reaper.engines.ray_driver import Driver, FetchedFiles, SharedStore, task_options

        scheduler = Scheduler(stages, store, listener)
        if not scheduler.waiting:
            return
        with connected(self.address):
            device = resolve_device(resources.device)
            gpus = self.gpus_per_stage if device.startswith("cuda") else 0
            check_fit(resources.threads, gpus)
            options = task_options(resources.threads, gpus)
            transport = FetchedFiles(scheduler, options) if self.store == "fetch" else SharedStore(scheduler, options)
            driver = Driver(scheduler, transport, resources=resources, device=device, stop=stop)
            try:
                driver.run()
            finally:
                driver.abandon()

"""The Ray engine: the same stages as tasks on a Ray cluster, with the driver as the one place that knows them all.

The driver hands out a stage when its parents are finished and passes on what workers report. Ray runs a task again when
its worker or its node dies; the stage then goes on from its last checkpoint, where the new worker can see it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from reaper.engines import Cluster
from reaper.engines.local import Listener, Resources, Scheduler, worse
from reaper.engines.ray_connection import check_fit, connected, find_device
from reaper.engines.ray_worker import Exchange, Order, patiently, work_fetched, work_shared
from reaper.engines.signals import Stop
from reaper.errors import ReaperError, Stopped, UserError
from reaper.progress import Remark, StageStarted
from reaper.storage.store import Store, digest_of
from reaper.storage.transfer import Numbered, Parcel, pack, pack_checkpoint, unpack_checkpoint, unpack_stage
from reaper.study.stages import Stage

RETRIES = 5  # of a stage whose worker or node has died
SECONDS_BETWEEN_LOOKS = 0.2


def run_stages(stages: Sequence[Stage], store: Store, resources: Resources, stop: Stop, listen: Listener) -> None:
    """Runs every stage that is not in the store yet; `stages` are in an order in which parents come first."""
    cluster = resources.cluster or Cluster()
    scheduler = Scheduler(stages, store, listen)
    if not scheduler.waiting:
        return
    with connected(cluster.address):
        device = find_device(resources.device)
        gpus = cluster.gpus_per_stage if device.startswith("cuda") else 0
        check_fit(resources.threads, gpus)
        options = {"num_cpus": resources.threads, "num_gpus": gpus, "max_retries": RETRIES}
        carrier = Fetching(scheduler, options) if cluster.store == "fetch" else Sharing(scheduler, options)
        driver = Driver(scheduler, carrier, resources, device, stop)
        try:
            driver.run()
        finally:
            driver.abandon()


class Sharing:
    """Workers write into the store themselves."""

    def __init__(self, scheduler: Scheduler, options: dict[str, Any]) -> None:
        self.store, self.task = scheduler.store, ray.remote(work_shared).options(**options)

    def submit(self, order: Order, exchange: Any) -> Any:
        return self.task.remote(order, exchange)

    def receive(self, stage: Stage, answer: bool, stop: Stop) -> bool:
        """Whether the stage is finished. A file system may need a while to show here what was written elsewhere."""
        if answer and not patiently(lambda: self.store.has(stage.digest), stop):
            raise UserError(
                f"{stage.title} was finished elsewhere but is not in {self.store.folder}; give an --out on a disk that "
                "all nodes share, or use --store fetch"
            )
        return answer


class Fetching:
    """The driver alone has the store: parents go out as parcels, results come back as parcels."""

    def __init__(self, scheduler: Scheduler, options: dict[str, Any]) -> None:
        self.scheduler, self.store, self.task = scheduler, scheduler.store, ray.remote(work_fetched).options(**options)
        self._sent: dict[str, Any] = {}  # parents that Ray holds already, by digest

    def submit(self, order: Order, exchange: Any) -> Any:
        stage = order.stage
        for digest in stage.parents.values():
            if digest not in self._sent:
                self._sent[digest] = ray.put(pack(self.store.path_of(digest)))
        parents = [self._sent[digest] for digest in stage.parents.values()]
        wanted = {digest for waiting in self.scheduler.waiting for digest in waiting.parents.values()}
        self._sent = {digest: sent for digest, sent in self._sent.items() if digest in wanted}
        return self.task.remote(order, exchange, pack_checkpoint(self.store, stage.digest), *parents)

    def receive(self, stage: Stage, answer: tuple[bool, Parcel, Numbered], stop: Stop) -> bool:
        finished, files, checkpoint = answer
        if not finished:
            unpack_checkpoint(checkpoint, self.store, stage.digest)
            raise Stopped("stopped")
        unpack_stage(files, self.store, stage.digest)
        return True


class Driver:
    """Hands out stages, listens to them and takes in their results."""

    def __init__(
        self, scheduler: Scheduler, carrier: Sharing | Fetching, resources: Resources, device: str, stop: Stop
    ) -> None:
        self.scheduler, self.carrier, self.resources, self.device, self.stop = (
            scheduler,
            carrier,
            resources,
            device,
            stop,
        )
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.exchange: Any = ray.remote(Exchange).options(num_cpus=0, scheduling_strategy=here).remote()
        _answer(self.exchange.stopping.remote())  # it has started, so this node has what it takes
        self.running: dict[Any, Stage] = {}
        self.started: set[str] = set()  # of those running; the others wait for a free node
        self.failure: ReaperError | None = None
        folder, self.header = scheduler.store.folder.absolute(), scheduler.store.common
        self.folder = str(folder)
        self.study = digest_of({"host": platform.node(), "folder": self.folder, "header": self.header})

    def run(self) -> None:
        while self.running or (self.scheduler.waiting and not self.failure):
            while not self.failure and (stage := self.scheduler.take()):
                self.running[self.carrier.submit(self.order(stage), self.exchange)] = stage
            done = self._wait()
            self._pass_on()
            for reference in done:
                self._take_in(reference)
            if self.stop() and not self.failure:
                self.failure = Stopped("stopped")
            if self.failure:
                self._ask_to_stop()
        if first := self.failure or self.scheduler.failure:
            raise first

    def order(self, stage: Stage) -> Order:
        resources, others = self.resources, self.scheduler.store.shared
        return Order(
            stage, self.device, resources.threads, resources.every, self.folder, self.header, self.study, others=others
        )

    def _wait(self) -> list[Any]:
        if not self.running:  # all that is left is held by others
            time.sleep(SECONDS_BETWEEN_LOOKS)
            return []
        return ray.wait(list(self.running), timeout=SECONDS_BETWEEN_LOOKS)[0]

    def _pass_on(self) -> None:
        """Tells the listener what workers say, but for late words of those that have ended."""
        running = {stage.digest: stage for stage in self.running.values()}
        for digest, event in ray.get(self.exchange.collect.remote()):
            if digest not in running:
                continue
            if isinstance(event, StageStarted) and digest in self.started:
                event = Remark(f"its worker was lost; resumes on {event.host}")
            self.started.add(digest)
            self.scheduler.listen(running[digest], event)

    def _take_in(self, reference: Any) -> None:
        stage = self.running.pop(reference)
        self.started.discard(stage.digest)
        try:
            if self.carrier.receive(stage, _answer(reference), self.stop):
                self.scheduler.finished(stage)
            else:
                self.scheduler.put_back(stage)
        except Exception as error:
            if not self.scheduler.passes_over(stage, error):
                self.failure = worse(self.failure, error)

    def _ask_to_stop(self) -> None:
        """Asks every stage to save its state and stop; asking twice does no harm."""
        self.exchange.ask_to_stop.remote()
        for reference, stage in self.running.items():
            if stage.digest not in self.started:
                ray.cancel(reference)

    def abandon(self) -> None:
        """Leaves nothing behind on a cluster that goes on without us. What still runs ends at once, after a second
        interrupt or a bug; checkpoints are whole or not there."""
        for reference in self.running:
            ray.cancel(reference, force=True)
        ray.kill(self.exchange)


def _answer(reference: Any) -> Any:
    """What a task returned. Our own errors come back as themselves, Ray's as one line; a traceback is a bug."""
    try:
        return ray.get(reference)
    except TaskCancelledError:
        raise Stopped("stopped") from None
    except RayError as error:
        if isinstance(error, RayTaskError) and isinstance(error.cause, ReaperError):
            raise error.cause from None
        missing = next((line for line in str(error).splitlines() if line.startswith("ModuleNotFoundError")), None)
        if missing:
            raise UserError(f"a node lacks something ({missing}); install the same on every node") from None
        if isinstance(error, RayTaskError):
            raise
        reason = " ".join(str(error).split())[:300]
        raise ReaperError(
            f"a worker was lost {RETRIES + 1} times ({type(error).__name__}: {reason}); run the same command again: it "
            "goes on from the last checkpoints"
        ) from None

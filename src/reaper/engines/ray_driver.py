"""The driver's side of the Ray engine: it hands out stages, receives their events and takes in their results.

Ray retries a task whose worker or node dies; the stage then resumes from the last checkpoint that the new worker sees.
"""

from __future__ import annotations

import platform
import time
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from reaper.engines.ray_worker import EventHub, Order, poll, work_fetched, work_shared
from reaper.engines.resources import Resources
from reaper.engines.scheduler import Scheduler, first_cause
from reaper.engines.signals import Stop
from reaper.errors import ReaperError, Stopped, UserError
from reaper.progress import Remark, StageStarted
from reaper.storage.files import digest_of
from reaper.storage.transfer import FileBytes, NumberedFiles, pack, pack_checkpoint, unpack_checkpoint, unpack_stage
from reaper.study.stages import Stage

RETRIES = 5  # of a stage whose worker or node died
SECONDS_BETWEEN_POLLS = 0.2


def task_options(cpus: int, gpus: float) -> dict[str, Any]:
    """What a stage asks of Ray."""
    return {"num_cpus": cpus, "num_gpus": gpus, "max_retries": RETRIES}


class SharedStore:
    """All nodes see the store: workers write to it themselves."""

    def __init__(self, scheduler: Scheduler, options: dict[str, Any]) -> None:
        self.store, self.task = scheduler.store, ray.remote(work_shared).options(**options)

    def submit(self, order: Order, hub: Any) -> Any:
        return self.task.remote(order, hub)

    def receive(self, stage: Stage, result: bool, stop: Stop) -> bool:
        """Returns whether the stage is finished. A file system may take a while to show what another node wrote."""
        if result and not poll(lambda: self.store.has(stage.digest), stop):
            raise UserError(
                f"{stage.title} was finished on another node but is not in {self.store.folder}; give an --out on a "
                "disk that all nodes share, or use --ray.store fetch"
            )
        return result


class FetchedFiles:
    """Only the driver sees the store: parents are sent to the workers, and results are sent back."""

    def __init__(self, scheduler: Scheduler, options: dict[str, Any]) -> None:
        self.scheduler, self.store, self.task = scheduler, scheduler.store, ray.remote(work_fetched).options(**options)
        self._sent: dict[str, Any] = {}  # digest -> Ray's reference to the files of a parent

    def submit(self, order: Order, hub: Any) -> Any:
        stage = order.stage
        for digest in stage.parents.values():
            if digest not in self._sent:
                self._sent[digest] = ray.put(pack(self.store.path_of(digest)))
        parents = [self._sent[digest] for digest in stage.parents.values()]
        still_needed = {digest for waiting in self.scheduler.waiting for digest in waiting.parents.values()}
        self._sent = {digest: sent for digest, sent in self._sent.items() if digest in still_needed}
        return self.task.remote(order, hub, pack_checkpoint(self.store, stage.digest), *parents)

    def receive(self, stage: Stage, result: tuple[bool, FileBytes, NumberedFiles], stop: Stop) -> bool:
        finished, files, checkpoint = result
        if not finished:
            unpack_checkpoint(checkpoint, self.store, stage.digest)
            raise Stopped("stopped")
        unpack_stage(files, self.store, stage.digest)
        return True


class Driver:
    """Hands out stages, forwards their events and takes in their results."""

    def __init__(
        self,
        scheduler: Scheduler,
        transport: SharedStore | FetchedFiles,
        *,
        resources: Resources,
        device: str,
        stop: Stop,
    ) -> None:
        self.scheduler, self.transport, self.resources, self.stop = scheduler, transport, resources, stop
        self.stage_resources = resources.for_stage(device)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.hub: Any = ray.remote(EventHub).options(num_cpus=0, scheduling_strategy=here).remote()
        _result(
            self.hub.stopping.remote()
        )  # waits for the actor to start, so that what this node lacks is reported now
        self.running: dict[Any, Stage] = {}
        self.started: set[str] = set()  # digests of running stages; the others wait for a free node
        self.failure: ReaperError | None = None  # that stops all stages
        self.folder, self.header = str(scheduler.store.folder.absolute()), scheduler.store.header
        self.study = digest_of({"host": platform.node(), "folder": self.folder, "header": self.header.to_json()})

    def run(self) -> None:
        while self.running or (self.scheduler.waiting and not self.failure):
            while not self.failure and (stage := self.scheduler.take()):
                self.running[self.transport.submit(self._order(stage), self.hub)] = stage
            done = self._wait()
            self._forward_events()
            for reference in done:
                self._receive(reference)
            if self.stop() and not self.failure:
                self.failure = Stopped("stopped")
            if self.failure:
                self._ask_to_stop()
        if first := self.failure or self.scheduler.failure:
            raise first

    def _order(self, stage: Stage) -> Order:
        return Order(
            stage=stage,
            resources=self.stage_resources,
            threads=self.resources.threads,
            folder=self.folder,
            header=self.header,
            study=self.study,
            shared=self.scheduler.store.shared,
        )

    def _wait(self) -> list[Any]:
        if not self.running:  # other processes run all that is left
            time.sleep(SECONDS_BETWEEN_POLLS)
            return []
        return ray.wait(list(self.running), timeout=SECONDS_BETWEEN_POLLS)[0]

    def _forward_events(self) -> None:
        """Passes the workers' events to the listener, except late ones of stages that have ended."""
        running = {stage.digest: stage for stage in self.running.values()}
        for digest, event in ray.get(self.hub.collect.remote()):
            if digest not in running:
                continue
            if isinstance(event, StageStarted) and digest in self.started:
                event = Remark(f"its worker was lost; resumes on {event.host}")
            self.started.add(digest)
            self.scheduler.listener(running[digest], event)

    def _receive(self, reference: Any) -> None:
        stage = self.running.pop(reference)
        self.started.discard(stage.digest)
        try:
            if self.transport.receive(stage, _result(reference), self.stop):
                self.scheduler.finished(stage)
            else:
                self.scheduler.put_back(stage)
        except Exception as error:
            if not self.scheduler.failed(stage, error):
                self.failure = first_cause(self.failure, error)

    def _ask_to_stop(self) -> None:
        """Asks every stage to save its state and stop; asking twice does no harm."""
        self.hub.ask_to_stop.remote()
        for reference, stage in self.running.items():
            if stage.digest not in self.started:
                ray.cancel(reference)

    def abandon(self) -> None:
        """Leaves nothing behind on a cluster that outlives us. Stages still running, after a second interrupt or a bug,
        end at once; checkpoints are written atomically."""
        for reference in self.running:
            ray.cancel(reference, force=True)
        ray.kill(self.hub)


def _result(reference: Any) -> Any:
    """What a task returned. Our own errors are raised as themselves, Ray's as one line; a traceback is a bug."""
    try:
        return ray.get(reference)
    except TaskCancelledError:
        raise Stopped("stopped") from None
    except RayError as error:
        if isinstance(error, RayTaskError) and isinstance(error.cause, ReaperError):
            raise error.cause from None
        missing = next((line for line in str(error).splitlines() if line.startswith("ModuleNotFoundError")), None)
        if missing:
            raise UserError(f"a node lacks a package ({missing}); install the same on every node") from None
        if isinstance(error, RayTaskError):
            raise
        reason = " ".join(str(error).split())[:300]
        raise ReaperError(
            f"a worker was lost {RETRIES + 1} times ({type(error).__name__}: {reason}); run the same command again: it "
            "resumes from the last checkpoints"
        ) from None

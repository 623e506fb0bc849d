"""Engines run the stages of a study: on this machine (local.py) or on a Ray cluster (ray.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reaper.errors import UserError, unknown

ENGINES = ("local", "ray")
STORES = ("shared", "fetch")


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, and how stages use it."""

    address: str | None = None  # None: one is started on this machine
    store: str = "shared"  # all nodes see --out; or "fetch": files travel from and to the node that has it
    gpus_per_stage: float = 1.0  # only asked for where stages run on GPUs


def find_cluster(engine: str, address: str | None, store: str | None, gpus_per_stage: float | None) -> Cluster | None:
    """What `--engine` and the options that go with it ask for; None: no cluster."""
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    given = {"--address": address, "--store": store, "--gpus-per-stage": gpus_per_stage}
    if engine == "local":
        misplaced = next((name for name, value in given.items() if value is not None), None)
        if misplaced:
            raise UserError(f"{misplaced} is for --engine ray")
        return None
    if store is not None and store not in STORES:
        raise unknown("store", store, STORES)
    gpus = Cluster.gpus_per_stage if gpus_per_stage is None else gpus_per_stage
    if not gpus > 0 or (gpus > 1 and gpus != int(gpus)):
        raise UserError(f"--gpus-per-stage must be a share of one GPU (0.25) or a whole number, not {gpus:g}")
    if address and address.startswith("ray://"):
        raise UserError(f"--address {address}: run reaper on a node of the cluster, with that node's HOST:PORT or auto")
    find_engine(engine)  # says now that Ray is missing, before anything is written
    return Cluster(address, store or Cluster.store, gpus)


def find_engine(engine: str) -> Callable[..., None]:
    """The engine's `run_stages`; Ray is imported only where it is asked for."""
    if engine == "local":
        from reaper.engines.local import run_stages
    else:
        try:
            from reaper.engines.ray import run_stages
        except ImportError:
            raise UserError("--engine ray needs Ray: pip install 'reaper-rl[ray]'") from None
    return run_stages

"""A study: conditions x seeds on a sequence of tasks, as a graph of stages in one output folder."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from reaper import version
from reaper.compute.layouts import is_small
from reaper.config import presets as scales
from reaper.config.settings import Settings
from reaper.engines import find_cluster, find_engine
from reaper.engines.local import Listener, Resources, default_workers
from reaper.engines.signals import listening
from reaper.errors import Stopped, UserError
from reaper.monitoring.listeners import monitor
from reaper.storage.checkpoints import Interval
from reaper.storage.store import Store
from reaper.study.chains import Chain, build_chain, unique_stages
from reaper.study.conditions import CONDITIONS, Condition
from reaper.study.continue_from import InitialMemory, open_initial_memory
from reaper.study.preflight import check_room
from reaper.study.stages import Stage
from reaper.tasks.observation import state_spec
from reaper.tasks.sequence import Sequence, find_sequence


def find_device(name: str, here: bool = True) -> str:
    """`auto` is the GPU where there is one; what a cluster has only its engine can tell."""
    if name == "auto":
        if not here:
            return name
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise UserError(f"unknown --device {name!r}; use auto, cpu or cuda") from None
    if here and kind == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda was asked for, but no CUDA device is available; use --device cpu")
    return name


def find_settings(
    sequence: Sequence, scale: str | None, fraction: float, overrides: Mapping[str, Any]
) -> tuple[str, Settings]:
    """The scale's name and its settings with the fraction applied, then the overrides."""
    name = scale or sequence.scale
    if name not in scales.PRESETS:
        from reaper.errors import unknown

        raise unknown("scale", name, scales.PRESETS)
    settings = scales.with_overrides(scales.at_fraction(scales.PRESETS[name], fraction), overrides)
    scales.check(settings)
    sequence.observation(settings.observation)  # refuses tasks that cannot be observed so
    return name, settings


@dataclass
class Plan:
    """A study that has been checked and is ready to run."""

    chains: list[Chain]
    common: dict[str, Any]
    resources: Resources
    notices: list[str]
    further: list[Stage] = field(default_factory=list)  # of an experiment's analyses, parents first
    experiments: list[dict[str, Any]] = field(default_factory=list)  # their records, one a seed

    @property
    def stages(self) -> list[Stage]:
        found = {stage.digest: stage for stage in unique_stages(self.chains)}
        return list({**found, **{stage.digest: stage for stage in self.further if stage.digest not in found}}.values())


@dataclass(frozen=True)
class StudyConfig:
    """What a study stands on, checked: everything but what is to be learnt."""

    sequence: Sequence
    seeds: tuple[int, ...]
    base: Settings
    common: dict[str, Any]
    resources: Resources
    words: list[str]  # of the command line, after what is to be learnt
    inherited: InitialMemory | None = None  # the memory that is to learn on

    def command(self, *what: str) -> str:
        """The command line that runs the same study."""
        return shlex.join(["reaper", *what, *self.words])

    def chains(self, condition: Condition, sequence: Sequence | None = None) -> list[Chain]:
        """One a seed, on the whole sequence or on another."""
        tasks = sequence or self.sequence
        return [build_chain(condition, tasks, seed, self.base, self.inherited) for seed in self.seeds]


def plan(conditions: Many[str], tasks: str = "arcade-3", seeds: Many[int] = (0,), *options: Any, **named: Any) -> Plan:
    """A study of conditions by name; the options are those of `resolve`."""
    rows = [CONDITIONS[name] for name in conditions]
    if not rows:
        raise UserError("name at least one condition; `reaper conditions` lists them")
    config = resolve(tasks, seeds, *options, **named)
    chains = [chain for row in rows for chain in config.chains(row)]
    for chain in chains:
        chain.command = config.command("run", *conditions)
    return Plan(chains, config.common, config.resources, config.sequence.notices)


def resolve(
    tasks: str = "arcade-3",
    seeds: Many[int] = (0,),
    fraction: float = 1.0,
    device: str = "auto",
    scale: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    workers: int | None = None,
    checkpoint_every: str = "10m",
    engine: str = "local",
    address: str | None = None,
    store: str | None = None,
    gpus_per_stage: float | None = None,
    continue_from: str | Path | None = None,
    from_condition: str | None = None,
    from_seed: int | None = None,
) -> StudyConfig:
    """Checks everything that can be checked before any work is done or anything is written.

    With `engine="ray"`, `address` names the cluster (none: one is started here), `store` says whether all nodes see the
    output folder ("shared") or files are sent to them ("fetch"), and `workers` is how many stages share a machine like
    this one: each asks for as many of its cores.

    `continue_from` is a long-term memory that is to learn the tasks after those it knows: `pretrained:NAME`, a pack of
    weights or another output folder, of which `from_condition` and `from_seed` choose a run.
    """
    cluster = find_cluster(engine, address, store, gpus_per_stage)
    if not seeds or any(seed < 0 for seed in seeds):
        raise UserError(f"--seeds must be whole numbers of at least 0, not {list(seeds)}")
    if workers is not None and workers < 1:
        raise UserError(f"--workers must be at least 1, not {workers}")
    sequence = find_sequence(tasks)
    scale_name, base = find_settings(sequence, scale, fraction, overrides or {})
    inherited = _inherit(continue_from, from_condition, from_seed)
    origin = {"continue-from": continue_from, "from-condition": from_condition, "from-seed": from_seed}
    small = is_small(state_spec(base.observation))
    workers = workers or default_workers(small)
    # Beside a GPU one thread is best: more would take the emulators' cores for nothing.
    single = small or find_device(device).startswith("cuda")
    threads = 1 if single else max(1, len(os.sched_getaffinity(0)) // workers)
    common = {"version": version.VERSION, "scale": scale_name, "fraction": fraction, "settings": scales.as_dict(base)}
    device = find_device(device, here=cluster is None)
    resources = Resources(device, workers, threads, Interval.parse(checkpoint_every), cluster)
    words = _words(tasks, seeds, fraction, scale, overrides or {}, origin)
    return StudyConfig(sequence, tuple(sorted(set(seeds))), base, common, resources, words, inherited)


def _inherit(source: str | Path | None, condition: str | None, seed: int | None) -> InitialMemory | None:
    if source is None:
        if condition is not None or seed is not None:
            raise UserError("--from-condition and --from-seed go with --continue-from")
        return None
    return open_initial_memory(source, condition, seed)


def _words(
    tasks: str,
    seeds: Many[int],
    fraction: float,
    scale: str | None,
    overrides: Mapping[str, Any],
    origin: Mapping[str, Any],
) -> list[str]:
    words = ["--tasks", tasks, "--seeds", *map(str, seeds)]
    words += ["--fraction", str(fraction)] if fraction != 1 else []
    words += ["--scale", scale] if scale else []
    for name, value in origin.items():
        words += [f"--{name}", str(value)] if value is not None else []
    for name, value in overrides.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def execute(
    plan: Plan,
    out: str | Path,
    listen: Listener,
    share: bool = False,
    tensorboard: bool = True,
    wandb: bool = False,
) -> Store:
    """Runs what is missing and writes down which stages make up each run. With `share`, other processes may be at work
    on the same folder."""
    if wandb:
        from reaper.monitoring.wandb_sink import find_wandb

        find_wandb()  # said now if it is missing, before anything is written
    cluster = plan.resources.cluster
    if share and cluster and cluster.store == "fetch":
        raise UserError("with --store fetch the folder is this run's alone; leave out --share or use --store shared")
    run_stages = find_engine("ray" if cluster else "local")
    check_room(plan.chains, Path(out), plan.resources)
    store = Store.open_for(out, plan.common, share)
    with listening() as stop:
        try:
            store.check_records()  # a damaged record is said to be so, not overwritten
            for chain in plan.chains:
                store.write_run(chain.name, chain.record())
                if chain.inherited:
                    chain.inherited.write(store)
            for record in plan.experiments:
                store.write_experiment(record["name"], record)
            names = [chain.name for chain in plan.chains]
            with monitor(store, names, listen, tensorboard=tensorboard, wandb=wandb) as tell:
                run_stages(plan.stages, store, plan.resources, stop, tell)
        except Stopped:
            name = signal.Signals(stop.signal).name if stop.signal else "a signal"
            raise Stopped(f"stopped by {name}; all is saved, and the same command goes on from here") from None
        finally:
            store.close()
    return store

"""Executing a plan: opens the store, writes the records, runs the stages that are missing, and stops on request."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager

from reaper.engines.base import Engine, Listener, build_engine
from reaper.engines.resources import Resources, free_memory, resolve_resources
from reaper.engines.signals import listening
from reaper.errors import Stopped
from reaper.storage.store import Store
from reaper.study.options import StudyOptions
from reaper.study.plan import Plan
from reaper.study.preflight import check_space

# Opens the listeners of a study (display, TensorBoard, ...) once its store is there, and closes them at its end.
OpenListeners = Callable[[Store], AbstractContextManager[Listener]]


def execute(plan: Plan, options: StudyOptions, open_listeners: OpenListeners) -> Store:
    """Runs every stage of the plan that is not in `options.out` yet and returns the store."""
    engine, resources = check_resources(plan, options)
    store = Store.open_for(options.out, plan.header, options.share)
    with listening() as stop:
        try:
            _write_records(plan, store)
            with open_listeners(store) as listener:
                engine.run(plan.stages, store=store, resources=resources, stop=stop, listener=listener)
        except Stopped:
            name = signal.Signals(stop.signal).name if stop.signal else "a signal"
            raise Stopped(f"stopped by {name}; all work is saved, and the same command resumes it") from None
        finally:
            store.close()
    return store


def check_resources(plan: Plan, options: StudyOptions) -> tuple[Engine, Resources]:
    """The engine and its resources; refuses a study that would run out of memory or of disk space."""
    engine, resources = resolve_engine(plan, options)
    check_space(
        plan.chains,
        options.out,
        workers=resources.workers,
        free_memory=None if engine.remote else free_memory(resources.device),
    )
    return engine, resources


def resolve_engine(plan: Plan, options: StudyOptions) -> tuple[Engine, Resources]:
    """The engine and the resources that the options ask for, checked."""
    engine = build_engine(options.engine, options.engine_options)
    engine.check(options.share)
    settings = plan.config.sequence.complete(plan.config.settings)
    return engine, resolve_resources(options, settings, engine.remote)


def _write_records(plan: Plan, store: Store) -> None:
    """Writes down which stages make up each run and each experiment."""
    store.check_records()  # a damaged record is reported, not overwritten
    for chain in plan.chains:
        store.write_run(chain.record())
        if chain.initial_memory:
            chain.initial_memory.write(store)
        chain.external.write(store)
    for record in plan.experiments:
        store.write_experiment(record)

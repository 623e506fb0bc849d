"""`reaper demo`, `run`, `consolidate`, `evaluate` and `experiment`: plan a study, then execute it.

The engine knows no listener and the planner knows no engine; they meet here, for the command line and for `reaper.run`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any

from rich.console import Console

from reaper.cli.display import show_progress
from reaper.engines.base import Listener, split_engine_options
from reaper.engines.execute import execute, resolve_engine
from reaper.errors import UserError
from reaper.monitoring.listeners import monitor
from reaper.storage.store import Store
from reaper.study.conditions import MAIN
from reaper.study.experiments import find_experiment, plan_experiment
from reaper.study.options import DEFAULT_CONDITION, StudyOptions
from reaper.study.plan import Plan, plan
from reaper.study.reuse import choose_sources, reuse_stages


def demo(arguments: argparse.Namespace, console: Console) -> None:
    """RePR and no rehearsal on three small games."""
    _run_and_report(["RePR", "no-reh"], options_from(arguments, device="cpu"), console)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Conditions on a sequence of tasks; `main` stands for the paper's nine."""
    names = [name for given in arguments.conditions for name in (MAIN if given == "main" else (given,))]
    _run(names, options_from(arguments), arguments, console)


def consolidate(arguments: argparse.Namespace, console: Console) -> None:
    """The same, with teachers from elsewhere."""
    teachers = dict(map(_task_and_source, arguments.teacher))
    if len(teachers) < len(arguments.teacher):
        raise UserError("--teacher: a task has two teachers")
    _run(arguments.conditions or [DEFAULT_CONDITION], options_from(arguments, teachers=teachers), arguments, console)


def evaluate(arguments: argparse.Namespace, console: Console) -> None:
    """A policy that is not learnt here, on every task."""
    from reaper.study.policies import plan_evaluation

    options = options_from(arguments)
    run_with_display(plan_evaluation(arguments.source, options, arguments.name), options, console)
    _report(options, console)


def _task_and_source(text: str) -> tuple[str, str]:
    task, equals, source = text.partition("=")
    if not (task and equals and source):
        raise UserError(f"--teacher takes TASK=SOURCE, such as CartPole-v1=sb3:cartpole.zip, not {text!r}")
    return task, source


def _run(names: Sequence[str], options: StudyOptions, arguments: argparse.Namespace, console: Console) -> None:
    from reaper.cli import dry_run

    if arguments.json and not arguments.dry_run:
        raise UserError("--json goes with --dry-run")
    if arguments.dry_run:
        dry_run.print_stages(plan(list(dict.fromkeys(names)), options), options, arguments.json, console)
    else:
        _run_and_report(list(dict.fromkeys(names)), options, console)


def experiment(arguments: argparse.Namespace, console: Console) -> None:
    """One of the paper's experiments, or what it would cost."""
    from reaper.cli import dry_run

    if arguments.list and (arguments.name or arguments.dry_run):
        raise UserError("--list is about all experiments: leave out NAME and --dry-run")
    if arguments.json and not (arguments.list or arguments.dry_run):
        raise UserError("--json goes with --list or --dry-run")
    options = options_from(arguments)
    if arguments.list:
        dry_run.print_costs(options, arguments.json, console)
        return
    if arguments.name is None:
        raise UserError("name an experiment; `reaper experiment --list` lists them")
    study = plan_experiment(find_experiment(arguments.name).name, options)
    if arguments.dry_run:
        dry_run.print_stages(study, options, arguments.json, console)
        return
    run_with_display(study, options, console)
    _report(options, console, experiment=arguments.name)


def options_from(arguments: argparse.Namespace, **fixed: Any) -> StudyOptions:
    """The parsed flags as study options, with what the command itself fixes."""
    names = [f.name for f in fields(StudyOptions) if hasattr(arguments, f.name)]
    given: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    overrides, engine_options = split_engine_options(arguments.dotted, given.get("engine", StudyOptions.engine))
    return StudyOptions(**given, **fixed, overrides=overrides, engine_options=engine_options)


def _run_and_report(conditions: Sequence[str], options: StudyOptions, console: Console) -> None:
    run_with_display(plan(conditions, options), options, console)
    _report(options, console)


def _report(options: StudyOptions, console: Console, experiment: str | None = None) -> None:
    if not options.report:
        print(f"finished: {options.out}")
        return
    from reaper.cli.reports import print_report

    print_report(options.out, console, experiment=experiment)


def run_with_display(study: Plan, options: StudyOptions, console: Console | None = None) -> Store:
    """Executes a plan and shows its progress on standard error."""
    reuse(study, options, console)
    if console:
        for notice in study.notices:
            console.print(f"note: {notice}", highlight=False, markup=False)
        small = study.config.preset in ("arcade", "vector")  # done before a prediction matters
        if not small and not options.quiet:
            from reaper.cli.dry_run import print_prediction

            print_prediction(study, options, console)
    with show_progress(study.stages, options.log, options.quiet) as listener:
        return run_plan(study, options, listener)


def reuse(study: Plan, options: StudyOptions, console: Console | None = None) -> None:
    """Takes the stages that the study has in common with the sources of --reuse."""
    if not options.reuse:
        return
    resolve_engine(study, options)  # bad options and sources are refused before anything is written
    choose_sources(study.stages, options.reuse, ())
    store = Store.open_for(options.out, study.header, options.share)
    try:
        taken = reuse_stages(store, study.stages, options.reuse)
    finally:
        store.close()
    if console:
        for source, count in taken.items():
            console.print(f"{count} stages reused from {source}", highlight=False, markup=False)


def run_plan(study: Plan, options: StudyOptions, listener: Listener) -> Store:
    """Executes a plan. Its events go to `listener`, to heartbeat files and to the loggers that the options ask for."""
    if options.wandb:
        from reaper.monitoring.wandb_sink import find_wandb

        find_wandb()  # reports a missing package before anything is written

    def open_listeners(store: Store) -> AbstractContextManager[Listener]:
        names = [chain.name for chain in study.chains]
        return monitor(store, names, listener, tensorboard=options.tensorboard, wandb=options.wandb)

    return execute(study, options, open_listeners)

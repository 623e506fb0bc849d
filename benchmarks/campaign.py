"""A study in slices, on machines that are bare at the start of each and forget everything at its end.

    campaign.py begin HOME RePR reh no-reh --tasks atari-3 --fraction 0.1    what is to be run, most important first
    campaign.py send HOME CARRY                 what the next slice needs, as a few files of at most 16 MiB
    campaign.py slice CARRY BACK --seconds 560  there: goes on, stops in time, leaves finished stages in BACK
    campaign.py unpack CARRY                    there, if it stays for long: then `reaper run --out runs/slice`
    campaign.py collect CARRY BACK              there, while that is at work: leaves what is finished and new in BACK
    campaign.py receive HOME BACK               adds them to HOME/store: `reaper report HOME/store`
    campaign.py plan HOME                       what is done, what is left, and how long it should take

docs/guides/campaign.md says what can travel, and what cannot.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from campaign_files import (
    COLLECTED,
    DESCRIPTION,
    LOST,
    PIECE,
    hand_over,
    joined,
    options_of,
    read_lost,
    read_plan,
    stages_in,
)
from campaign_plan import Pace, Slice, bytes_of, in_order, to_bring_back, to_carry
from rich.console import Console

from reaper.cli.display import show_progress
from reaper.engines.execute import resolve_engine
from reaper.engines.signals import listening
from reaper.errors import ReaperError, Stopped, UserError
from reaper.progress import Event, StageFinished, StageStarted
from reaper.storage.files import read_checksummed, write_checksummed
from reaper.storage.pack import import_pack
from reaper.storage.store import Store
from reaper.study.plan import Plan, plan
from reaper.study.stages import Stage

ROOM = 4 * PIECE  # of 64 MiB; the rest is for the description, a log and what else a slice may want to leave


def say(text: str) -> None:
    print(text, flush=True)


# -- at home


def begin(arguments: argparse.Namespace, overrides: dict[str, str]) -> None:
    words = {"conditions": arguments.conditions, "tasks": arguments.tasks, "seeds": [arguments.seed]}
    words |= {"fraction": arguments.fraction, "overrides": overrides}
    study = plan(arguments.conditions, options_of(words))
    store = Store.open_for(arguments.home / "store", study.header)
    write_checksummed(arguments.home / DESCRIPTION, words)
    for chain in study.chains:
        store.write_run(chain.name, chain.record())
    store.close()
    show(Slice(in_order(study.chains), store, pace_of(arguments, study, store), ROOM, frozenset()))


def send(arguments: argparse.Namespace) -> None:
    study, store = read_plan(arguments.home), Store.open(arguments.home / "store")
    stages = in_order(study.chains)
    hand_over(store, to_carry(stages, store, ROOM), arguments.home / DESCRIPTION, arguments.carry, ROOM)
    write_checksummed(arguments.carry / LOST, {"seconds": read_lost(arguments.home)})


def receive(arguments: argparse.Namespace) -> None:
    with joined(arguments.back) as file:
        say(f"{arguments.home / 'store'}: {import_pack(file, arguments.home / 'store')}")
    write_checksummed(arguments.home / LOST, {"seconds": {**read_lost(arguments.home), **read_lost(arguments.back)}})


def show_plan(arguments: argparse.Namespace) -> None:
    study, store = read_plan(arguments.home), Store.open(arguments.home / "store")
    show(Slice(in_order(study.chains), store, pace_of(arguments, study, store), ROOM, frozenset()))


def show(slice_: Slice) -> None:
    left = slice_.left()
    say(f"{len(slice_.stages) - len(left)} of {len(slice_.stages)} stages are finished; left, most important first:")
    for stage in left:
        alone, large = slice_.pace.seconds(stage), bytes_of(stage) > slice_.room
        note = f", too large to travel: needs {slice_.seconds(stage):,.0f} s in one slice" if large else ""
        say(f"  {alone:7,.0f} s {bytes_of(stage) / 1e6:8,.1f} MB  {stage.title}{note}")
    say(f"together about {sum(map(slice_.pace.seconds, left)) / 3600:.2f} hours")


def pace_of(arguments: argparse.Namespace, study: Plan, store: Store) -> Pace:
    names = ("steps_per_second", "steps_per_second", "test_seconds", "start_seconds")
    pace = Pace(*(getattr(arguments, name) for name in names))
    lost = read_lost(arguments.carry if arguments.command == "slice" else arguments.home)
    for stage in study.stages:
        if store.has(stage.digest):
            pace.note(stage, store.stage(stage.digest).made()["seconds"])
        elif stage.digest in lost:
            pace.note_lost(stage, lost[stage.digest])
    return pace


# -- in a slice


def run_slice(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    means = {"device": arguments.device, "workers": arguments.workers}
    study = read_plan(arguments.carry, **means, checkpoint_every=arguments.checkpoint_every)
    unpack(arguments)
    before = carried(arguments)
    store, stages = Store.open_for(arguments.work, study.header), in_order(study.chains)
    if arguments.no_tests:
        stages = [stage for stage in stages if stage.kind != "evaluate"]
    pace = pace_of(arguments, study, store)
    slice_ = Slice(stages, store, pace, ROOM, before, arguments.margin, arguments.folder_stays)
    deadline = started + arguments.seconds - arguments.reserve
    failure: ReaperError | None = None
    left_before = len(slice_.left())
    running: dict[str, float] = {}  # digest -> since when
    try:
        go_on(slice_, study, deadline, running)
    except ReaperError as error:
        failure = error  # what is finished is brought back all the same
    finally:
        store.close()
    hand_over(store, to_bring_back(stages, store, before, ROOM), arguments.carry / DESCRIPTION, arguments.back, ROOM)
    lost = {} if arguments.folder_stays else {stage: round(deadline - since) for stage, since in running.items()}
    write_checksummed(arguments.back / LOST, {"seconds": lost})
    say(f"slice of {time.monotonic() - started:.0f} s ends; {len(slice_.left())} stages are left in all")
    if failure and not isinstance(failure, Stopped):
        raise failure
    if left_before == len(slice_.left()) > 0 and not running:
        raise UserError("nothing that is left fits into a slice; see `plan`, and give more --seconds or --folder-stays")
    return Stopped.exit_code if slice_.left() else 0


def unpack(arguments: argparse.Namespace) -> None:
    with joined(arguments.carry) as file:
        say(f"{arguments.work}: {import_pack(file, arguments.work)}")


def carried(arguments: argparse.Namespace) -> frozenset[str]:
    with joined(arguments.carry) as file:
        return stages_in(file)


def collect(arguments: argparse.Namespace) -> None:
    """What another process has finished since the last time, at home or there; it works on meanwhile."""
    study, store = read_plan(arguments.carry), Store.open(arguments.work)
    left = arguments.work.parent / f"{arguments.work.name}-{COLLECTED}"
    before = carried(arguments) | frozenset(read_checksummed(left)["stages"] if left.is_file() else ())
    chosen = to_bring_back(in_order(study.chains), store, before, ROOM)
    hand_over(store, chosen, arguments.carry / DESCRIPTION, arguments.back, ROOM)
    write_checksummed(arguments.back / LOST, {"seconds": {}})
    write_checksummed(left, {"stages": sorted(before | chosen.keys())})


def go_on(slice_: Slice, study: Plan, deadline: float, running: dict[str, float]) -> None:
    """Runs one batch of stages after another until none fits into the time that is left; what is left in `running` was
    not finished."""
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    left = slice_.left()
    engine, resources = resolve_engine(study, study.config.options)
    with show_progress(len(left), Console(stderr=True)) as show_event, listening() as stop:

        def listen(stage: Stage, event: Event) -> None:
            if isinstance(event, StageStarted):
                running[stage.digest] = time.monotonic()
            if isinstance(event, StageFinished):
                running.pop(stage.digest, None)
                slice_.pace.note(stage, event.seconds)
                say(f"finished in {event.seconds:,.0f} s: {stage.title}")
            show_event(stage, event)

        timer.start()
        try:
            while chosen := slice_.choose(deadline - time.monotonic(), resources.workers):
                for stage in chosen:
                    seconds, now = slice_.seconds(stage), deadline - time.monotonic()
                    say(f"begin, with {now:,.0f} s left, what should take {seconds:,.0f} s: {stage.title}")
                engine.run(chosen, store=slice_.store, resources=resources, stop=stop, listener=listen)
            if slice_.left():
                say(f"nothing more fits into the {deadline - time.monotonic():,.0f} s and the files that are left")
        except Stopped:
            say("out of time" + ("; its checkpoint stays in the folder" if slice_.stays else ": a stage is lost"))
            raise
        finally:
            timer.cancel()


# -- the command line


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    beginning = commands.add_parser("begin", help="settings as for `reaper run`: --generator.steps 1000 ...")
    beginning.add_argument("home", type=Path)
    beginning.add_argument("conditions", nargs="+")
    beginning.add_argument("--tasks", default="atari-3")
    beginning.add_argument("--fraction", type=float, required=True)
    beginning.add_argument("--seed", type=int, default=0)
    sending, receiving = commands.add_parser("send"), commands.add_parser("receive")
    planning, slicing = commands.add_parser("plan"), commands.add_parser("slice")
    unpacking, collecting = commands.add_parser("unpack"), commands.add_parser("collect")
    for command in (sending, receiving, planning):
        command.add_argument("home", type=Path)
    sending.add_argument("carry", type=Path)
    receiving.add_argument("back", type=Path)
    for command in (slicing, unpacking, collecting):
        command.add_argument("carry", type=Path)
        if command is not unpacking:
            command.add_argument("back", type=Path)
        command.add_argument("--work", type=Path, default=Path("runs/slice"), help="the store (default: %(default)s)")
    slicing.add_argument("--seconds", type=float, default=560.0, help="how long the slice may last")
    slicing.add_argument("--reserve", type=float, default=40.0, help="of these, for a last checkpoint and packing")
    slicing.add_argument("--margin", type=float, default=1.15, help="by which stages may take longer than thought")
    slicing.add_argument("--folder-stays", action="store_true", help="--work outlives the slice: begin what cannot end")
    slicing.add_argument("--no-tests", action="store_true", help="leave the last whole games of each agent for home")
    slicing.add_argument("--device", default="auto")
    slicing.add_argument("--workers", type=int, default=1)
    slicing.add_argument("--checkpoint-every", default="10m")
    for command in (beginning, planning, slicing):
        command.add_argument("--frames-per-second", type=float, default=9000.0, help="until a stage has been timed")
        command.add_argument("--steps-per-second", type=float, default=450.0, help="of the GAN")
        command.add_argument("--test-seconds", type=float, default=6.0, help="for the whole games of one task")
        command.add_argument("--start-seconds", type=float, default=60.0, help="until a stage is under way")
    return parser


ALONE = {"send": send, "unpack": unpack, "collect": collect, "receive": receive, "plan": show_plan}


def main(words: list[str] | None = None) -> int:
    from reaper.cli.parser import Parser, take_dotted

    try:
        rest, overrides = take_dotted(sys.argv[1:] if words is None else words, ("begin",), Parser("campaign"))
        arguments, extra = build_parser().parse_known_args(rest)
        if arguments.command == "begin" and not extra:
            begin(arguments, overrides)
        elif extra:
            raise UserError(f"unknown argument {extra[0]!r}")
        elif arguments.command == "slice":
            return run_slice(arguments)
        else:
            ALONE[arguments.command](arguments)
    except ReaperError as error:
        print(f"campaign: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs a study in time slices, on machines that start empty and are wiped at the end of each slice.

At home:
    campaign.py begin HOME RePR reh no-reh --tasks atari-3 --fraction 0.1   plans a study, in order of importance
    campaign.py send HOME CARRY                 packs what the next slice needs into a few files of at most 16 MiB
    campaign.py receive HOME BACK               adds finished stages to HOME/store; then `reaper report HOME/store`
    campaign.py plan HOME                       lists what is left and how long it should take
    campaign.py queue docs/results/data         lists the studies of the reproduction: done, next, cost and commands
On the other machine:
    campaign.py slice CARRY BACK --seconds 560  resumes the study, stops in time, leaves finished stages in BACK
    campaign.py unpack CARRY                    for a machine that stays longer: then `reaper run --out runs/slice`
    campaign.py collect CARRY BACK              during such a run: leaves newly finished stages in BACK

docs/guides/campaign.md explains what is transferred, and what is not.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time

from campaign_files import (
    COLLECTED,
    DESCRIPTION,
    PIECE_BYTES,
    TIMED_OUT,
    campaign_options,
    joined_pack,
    read_plan,
    read_timed_out,
    stages_in,
    write_pieces,
)
from campaign_parser import build_parser
from campaign_plan import Slice, StageTimes, in_order, num_bytes, to_bring_back, to_carry
from campaign_queue import show_queue

from reaper.cli.display import show_progress
from reaper.engines.execute import resolve_engine
from reaper.engines.signals import listening
from reaper.errors import ReaperError, Stopped, UserError
from reaper.learning.found_memory import check_memory
from reaper.progress import Event, StageFinished, StageStarted
from reaper.storage.files import read_checksummed, write_checksummed
from reaper.storage.pack import import_pack
from reaper.storage.store import Store
from reaper.study.kinds.base import Stage
from reaper.study.plan import Plan, plan
from reaper.study.reuse import reuse_stages

ROOM = 4 * PIECE_BYTES  # of 64 MiB per slice; the rest is for the description and a log


def say(text: str) -> None:
    print(text, flush=True)


# -- at home


def begin(arguments: argparse.Namespace, overrides: dict[str, str]) -> None:
    description = {"conditions": arguments.conditions, "tasks": arguments.tasks, "seeds": [arguments.seed]}
    description |= {"preset": arguments.preset, "fraction": arguments.fraction, "overrides": overrides}
    study = plan(arguments.conditions, campaign_options(description))
    store = Store.open_for(arguments.home / "store", study.header)
    write_checksummed(arguments.home / DESCRIPTION, description)
    for chain in study.chains:
        store.write_run(chain.record())
    for source, count in reuse_stages(store, study.stages, arguments.reuse).items():
        say(f"{count} stages reused from {source}")
    store.close()
    show(whole_campaign(arguments, study, store))


def send(arguments: argparse.Namespace) -> None:
    study, store = read_plan(arguments.home), Store.open(arguments.home / "store")
    stages = in_order(study.chains)
    files, description = to_carry(stages, store, ROOM), arguments.home / DESCRIPTION
    write_pieces(store, files, description=description, folder=arguments.carry, room=ROOM)
    write_checksummed(arguments.carry / TIMED_OUT, {"seconds": read_timed_out(arguments.home)})


def receive(arguments: argparse.Namespace) -> None:
    with joined_pack(arguments.back) as file:
        say(f"{arguments.home / 'store'}: {import_pack(file, arguments.home / 'store', check_memory)}")
    timed_out = {**read_timed_out(arguments.home), **read_timed_out(arguments.back)}
    write_checksummed(arguments.home / TIMED_OUT, {"seconds": timed_out})


def show_plan(arguments: argparse.Namespace) -> None:
    study, store = read_plan(arguments.home), Store.open(arguments.home / "store")
    show(whole_campaign(arguments, study, store))


def whole_campaign(arguments: argparse.Namespace, study: Plan, store: Store) -> Slice:
    times = stage_times(arguments, study, store)
    return Slice(in_order(study.chains), store, times, room=ROOM, before=frozenset())


def show(slice_: Slice) -> None:
    left = slice_.left()
    say(f"{len(slice_.stages) - len(left)} of {len(slice_.stages)} stages are finished; left, in order of importance:")
    for stage in left:
        alone, large = slice_.times.seconds(stage), num_bytes(stage) > slice_.room
        note = f", too large to transfer: needs {slice_.seconds(stage):,.0f} s in one slice" if large else ""
        say(f"  {alone:7,.0f} s {num_bytes(stage) / 1e6:8,.1f} MB  {stage.title}{note}")
    say(f"in all about {sum(map(slice_.times.seconds, left)) / 3600:.2f} hours")


def stage_times(arguments: argparse.Namespace, study: Plan, store: Store) -> StageTimes:
    times = StageTimes(
        steps_per_second=arguments.steps_per_second,
        generator_steps_per_second=arguments.generator_steps_per_second,
        evaluation_seconds=arguments.evaluation_seconds,
        start_seconds=arguments.start_seconds,
    )
    timed_out = read_timed_out(arguments.carry if arguments.command == "slice" else arguments.home)
    for stage in study.stages:
        if store.has(stage.digest):
            times.add(stage, store.stage(stage.digest).provenance().seconds)
        elif stage.digest in timed_out:
            times.add_timed_out(stage, timed_out[stage.digest])
    return times


# -- in a slice


def run_slice(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    resources = {"device": arguments.device, "workers": arguments.workers}
    study = read_plan(arguments.carry, **resources, checkpoint_every=arguments.checkpoint_every)
    unpack(arguments)
    before = carried(arguments)
    store, stages = Store.open_for(arguments.work, study.header), in_order(study.chains)
    if arguments.skip_evaluations:
        stages = [stage for stage in stages if stage.kind != "evaluate"]
    slice_ = Slice(
        stages,
        store,
        stage_times(arguments, study, store),
        room=ROOM,
        before=before,
        margin=arguments.margin,
        persistent=arguments.persistent,
    )
    deadline = started + arguments.seconds - arguments.reserve
    failure: ReaperError | None = None
    left_before = len(slice_.left())
    running: dict[str, float] = {}  # digest -> when it started
    try:
        run_until(slice_, study, deadline, running)
    except ReaperError as error:
        failure = error  # finished stages are brought back all the same
    finally:
        store.close()
    files, description = to_bring_back(stages, store, before, ROOM), arguments.carry / DESCRIPTION
    write_pieces(store, files, description=description, folder=arguments.back, room=ROOM)
    timed_out = {} if arguments.persistent else {stage: round(deadline - since) for stage, since in running.items()}
    write_checksummed(arguments.back / TIMED_OUT, {"seconds": timed_out})
    say(f"slice of {time.monotonic() - started:.0f} s ends; {len(slice_.left())} stages are left")
    if failure and not isinstance(failure, Stopped):
        raise failure
    if left_before == len(slice_.left()) > 0 and not running:
        raise UserError("no unfinished stage fits into a slice; see `plan`, and give more --seconds or --persistent")
    return Stopped.exit_code if slice_.left() else 0


def unpack(arguments: argparse.Namespace) -> None:
    with joined_pack(arguments.carry) as file:
        say(f"{arguments.work}: {import_pack(file, arguments.work, check_memory)}")


def carried(arguments: argparse.Namespace) -> frozenset[str]:
    with joined_pack(arguments.carry) as file:
        return stages_in(file)


def collect(arguments: argparse.Namespace) -> None:
    """Packs what another process has finished since the last call, while it continues."""
    study, store = read_plan(arguments.carry), Store.open(arguments.work)
    collected = arguments.work.parent / f"{arguments.work.name}-{COLLECTED}"
    before = carried(arguments) | frozenset(read_checksummed(collected)["stages"] if collected.is_file() else ())
    files, description = to_bring_back(in_order(study.chains), store, before, ROOM), arguments.carry / DESCRIPTION
    write_pieces(store, files, description=description, folder=arguments.back, room=ROOM)
    write_checksummed(arguments.back / TIMED_OUT, {"seconds": {}})
    write_checksummed(collected, {"stages": sorted(before | files.keys())})


def run_until(slice_: Slice, study: Plan, deadline: float, running: dict[str, float]) -> None:
    """Runs one batch of stages after another until none fits into the time left; `running` then holds the unfinished
    ones."""
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    left = slice_.left()
    engine, resources = resolve_engine(study, study.config.options)
    with show_progress(left) as show_event, listening() as stop:

        def listen(stage: Stage, event: Event) -> None:
            if isinstance(event, StageStarted):
                running[stage.digest] = time.monotonic()
            if isinstance(event, StageFinished):
                running.pop(stage.digest, None)
                slice_.times.add(stage, event.seconds)
                say(f"finished in {event.seconds:,.0f} s: {stage.title}")
            show_event(stage, event)

        timer.start()
        try:
            while chosen := slice_.choose(deadline - time.monotonic(), resources.workers):
                for stage in chosen:
                    seconds, now = slice_.seconds(stage), deadline - time.monotonic()
                    say(f"{now:,.0f} s left; starting a stage of about {seconds:,.0f} s: {stage.title}")
                engine.run(chosen, store=slice_.store, resources=resources, stop=stop, listener=listen)
            if slice_.left():
                say(f"no other stage fits into the {deadline - time.monotonic():,.0f} s and the bytes left")
        except Stopped:
            say("out of time" + ("; its checkpoint stays in the folder" if slice_.persistent else ": a stage is lost"))
            raise
        finally:
            timer.cancel()


# -- the command line


COMMANDS = {
    "send": send,
    "unpack": unpack,
    "collect": collect,
    "receive": receive,
    "plan": show_plan,
    "queue": show_queue,
}


def main(argv: list[str] | None = None) -> int:
    from reaper.cli.parser import Parser, take_dotted

    try:
        rest, overrides = take_dotted(sys.argv[1:] if argv is None else argv, ("begin",), Parser("campaign"))
        arguments, extra = build_parser(__doc__ or "").parse_known_args(rest)
        if arguments.command == "begin" and not extra:
            begin(arguments, overrides)
        elif extra:
            raise UserError(f"unknown argument {extra[0]!r}")
        elif arguments.command == "slice":
            return run_slice(arguments)
        else:
            COMMANDS[arguments.command](arguments)
    except ReaperError as error:
        print(f"campaign: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())

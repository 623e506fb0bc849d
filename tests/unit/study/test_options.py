"""The options of a study: one dataclass, from which the command line is generated."""

import shlex
from dataclasses import fields
from pathlib import Path

import pytest

import reaper
from reaper.cli.parser import build_parser, take_dotted
from reaper.cli.run import options_from
from reaper.errors import UserError
from reaper.study.options import StudyOptions, flags_for


def parsed(*words):
    parser = build_parser()
    rest, dotted = take_dotted(words, ("run", "experiment"), parser)
    arguments = parser.parse_args(rest)
    arguments.dotted = dotted
    return options_from(arguments)


def test_no_flags_are_the_defaults():
    assert parsed("run", "RePR") == StudyOptions()
    assert parsed("experiment", "main") == StudyOptions()


def test_every_option_is_a_flag_or_a_dotted_name():
    others = {"overrides", "engine_options", "teachers"}  # dotted names, and a flag of `consolidate`
    assert {f.name for f in flags_for("run")} == {f.name for f in fields(StudyOptions)} - others
    only_run = {f.name for f in flags_for("run")} - {f.name for f in flags_for("experiment")}
    assert only_run == {"continue_from", "from_condition", "from_seed"}


def test_flags_become_options():
    options = parsed(
        *shlex.split(
            "run RePR --seeds 1 2 --out runs/mine --no-tensorboard --no-report --wandb --workers 2 --from-seed 3"
        ),
        *shlex.split("--continue-from pretrained:arcade-3 --engine ray --ray.store fetch --long-term.alpha=0.5"),
    )
    assert options == StudyOptions(
        seeds=(1, 2),
        out=Path("runs/mine"),
        tensorboard=False,
        report=False,
        wandb=True,
        workers=2,
        continue_from="pretrained:arcade-3",
        from_seed=3,
        engine="ray",
        engine_options={"store": "fetch"},
        overrides={"long-term.alpha": "0.5"},
    )


def test_the_command_of_a_study_has_what_its_results_depend_on():
    options = StudyOptions(
        tasks="arcade-3", seeds=(0, 1), fraction=0.5, workers=4, out="runs/mine", overrides={"long-term.alpha": 0.5}
    )
    command = options.command("run", "RePR")
    assert command == "reaper run RePR --tasks arcade-3 --seeds 0 1 --fraction 0.5 --long-term.alpha 0.5"
    again = parsed(*shlex.split(command)[1:])
    assert again.command("run", "RePR") == command


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"seeds": ()}, "--seeds must be"),
        ({"seeds": (-1,)}, "--seeds must be"),
        ({"workers": 0}, "--workers must lie between 1 and 10,000"),
        ({"emulator_threads": 0}, "--emulator-threads must lie between 1 and 10,000"),
        ({"from_seed": 1}, "go with --continue-from"),
        ({"sedes": (1,)}, "unknown option 'sedes'; did you mean 'seeds'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, complaint):
    with pytest.raises(UserError, match=complaint):
        reaper.run("RePR", **options)

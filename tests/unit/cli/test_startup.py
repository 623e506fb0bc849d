"""`reaper --help` is quick: it imports neither torch nor anything else that is slow."""

import importlib
import subprocess
import sys

import pytest

import reaper
from reaper.cli.main import COMMANDS
from reaper.cli.parser import build_parser

SLOW = ("torch", "numpy", "gymnasium", "matplotlib", "ray")
PROGRAM = """
import sys
from reaper.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("imported:", *[name for name in {slow} if name in sys.modules])
"""


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["run", "--sedes"]], ids=" ".join)
def test_help_and_mistakes_do_not_import_torch(words):
    program = PROGRAM.format(slow=SLOW)
    ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("imported:\n"), ran.stdout[-300:]


def test_every_command_of_the_parser_has_a_function():
    commands = next(action for action in build_parser()._actions if action.dest == "command").choices
    assert set(commands) == set(COMMANDS)
    for command, module in COMMANDS.items():
        name = "import_" if command == "import" else command.replace("-", "_")
        assert callable(getattr(importlib.import_module(f"reaper.cli.{module}"), name))


def test_public_names_are_found_when_they_are_used():
    for name in reaper.__all__:
        assert getattr(reaper, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        reaper.runn  # noqa: B018 - the access is what fails

"""Every labelled equation of the paper is one function."""

from pathlib import Path
from types import FunctionType

import pytest

import reaper.equations
from reaper.equations import EQUATIONS, equation

LABELS = [
    "dqn-loss",
    "repr-loss",
    "distill-loss",
    "pr-loss",
    "gan-data",
    "disc-loss",
    "gen-loss",
    "ltm-ewc-loss",
    "ewc-loss",
    "fisher-eq",
    "oewc-loss",
    "oewc-Fupdate",
    "distill-loss-policy",
    "pr-loss-policy",
    "fisher-overlap",
]
OURS = ["dqn-target"]  # printed in the paper without a label
PACKAGE = Path(reaper.equations.__file__).parent


def test_the_registry_holds_these_labels_and_no_others() -> None:
    assert sorted(EQUATIONS) == sorted(LABELS + OURS)


def test_no_function_implements_two_labels() -> None:
    assert len({entry.function for entry in EQUATIONS.values()}) == len(LABELS + OURS)


@pytest.mark.parametrize("label", LABELS + OURS)
def test_each_label_has_exactly_one_function(label: str) -> None:
    sources = "".join(path.read_text() for path in PACKAGE.glob("*.py"))
    assert sources.count(f'@equation("{label}")') == 1


@pytest.mark.parametrize("label", LABELS + OURS)
def test_each_entry_names_the_file_of_its_function(label: str) -> None:
    entry = EQUATIONS[label]
    assert isinstance(entry.function, FunctionType)
    assert entry.label == label
    assert entry.module == entry.function.__module__
    assert f"def {entry.function.__name__}(" in (PACKAGE.parent / entry.file).read_text()
    assert entry.summary.startswith(f"{label}: ")
    assert getattr(reaper.equations, entry.function.__name__) is entry.function


@pytest.mark.parametrize("label", LABELS)
def test_a_second_function_for_a_label_is_refused(label: str) -> None:
    before = EQUATIONS[label]

    def another() -> None:
        """Another."""

    with pytest.raises(ValueError, match=f"'{label}' is already implemented by .* in equations/"):
        equation(label)(another)
    assert EQUATIONS[label] is before


def test_the_registry_cannot_be_written_to() -> None:
    with pytest.raises(TypeError):
        EQUATIONS["dqn-loss"] = EQUATIONS["pr-loss"]  # type: ignore[index]

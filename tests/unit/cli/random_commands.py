"""Random command lines over every command, and a sandbox of good, bad and damaged files to throw them at.

The arguments of a command are read from the parser, so a new command or flag is covered as soon as it exists. Most
values are sensible: a line with one mistake gets further than a line of noise.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from reaper.cli.parser import build_parser
from reaper.config.overrides import setting_names
from reaper.study.conditions import CONDITIONS
from reaper.study.experiments import EXPERIMENTS
from reaper.tasks.sequence import SEQUENCES, TASKS

NUMBERS = (
    *("0", "1", "2", "3", "-1", "0.5", "1.5", "1e3", "1e-300", "1e300", "1e400", "nan", "-nan", "inf", "-inf", "-0"),
    *("9" * 30, "9" * 400, "9" * 5000, "2147483648", "-9223372036854775809", "0x10", "1_000", "", " ", "½", "٣", "1,5"),
    *("1e", "--1", "true", "None"),
)
JUNK = (
    *("", " ", "-", "--", "---", "-x", "--=", "--.", "--x.", "--.x=1", "=", ",", ",,", "a,b", ":", "a:b", "/", "//"),
    *("..", "*", "%s", "{}", "{0}", "%", "[/]", "[bold]", "[red", "\\", "'", '"', "~", "$HOME", "null", "NaN", "main"),
    *("\n", "a\nb", "a\tb", "\r", "\x1b[31mred", "\x00", "a\x00b", "\u2028", "\u202eright", "\udcff", "e\u0301"),
    *("日本", "🙂", "é", "a" * 300, "b/" * 3000, "c" * 5000, "pretrained:", "pretrained:x", "os:system", "reaper.json"),
)
# Argument -> values that are right, and values that a person might try.
VALUES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "conditions": ((*CONDITIONS, "main", "pseudo-rehearsal"), ("gan", "repr", "reh ", "decay")),
    "tasks": (
        (*SEQUENCES, *TASKS, "catch,dodge", "arcade-3,pong", "catch, dodge", "frog,"),
        (
            *("CartPole-v1", "ALE/Pong-v5", "ALE/Nothing-v5", "Nothing-v0", "a/b-v0", "no_such_module:X-v0", "ALE/"),
            *("arcade-3,catch", "catch,catch", "catch,ALE/Pong-v5", "arcade-3,arcade-6", "atari-3-rev", "-v0"),
        ),
    ),
    "teacher": (
        ("catch=pretrained:arcade-3", "dodge=pretrained:arcade-3", "frog=pretrained:arcade-3"),
        (
            *(
                "catch",
                "catch=",
                "=x",
                "catch=sb3:missing.zip",
                "catch=sb3:good/reaper.json",
                "catch=cleanrl:dqn:text.md",
            ),
            *("catch=sb3:", "catch=cleanrl:x", "catch=json:dumps", "catch=no_such_module:f", "catch=good", "x=y=z"),
        ),
    ),
    "source": (("pretrained:arcade-3",), ("json:dumps", "os:nothing", "sb3:text.md", "good", "catch")),
    "task": (("catch", "Catch"), ("dodge", "ALE/Pong-v5", "arcade-3")),
    "preset": (("arcade",), ("paper",)),
    "device": (("cpu",), ("auto", "cuda", "cuda:7", "meta", "mps", "cpu:0", "cpu:1", "cuda:x", "cuda:-1", "xla")),
    "engine": (("local", "ray"), ("sequential", "LOCAL")),
    "log": (("auto", "plain", "json"), ("xml",)),  # bars are not lines
    "checkpoint_every": (
        ("10m", "30s", "2h", "500", "0.5h"),
        ("0", "-1m", "1.5", "m", "nanm", "infs", "9" * 400, "9" * 400 + "h", "1e3", "10 m", "0s"),
    ),
    "condition": (("no-reh",), ("RePR", "single")),
    "from_condition": (("no-reh",), ("RePR", "single")),
    "sequence": (("catch",), ("arcade-3",)),
    "after_task": (("1",), NUMBERS),
    "pretrained": (("arcade-3",), ("atari-3",)),
    "agent_steps": (("2m", "500k", "20000"), (*NUMBERS, "1.5k", "k", "0m", "-1k", "nank", "9" * 400 + "k")),
    "fraction": (("0.01", "1", "0.5"), NUMBERS),
    "seeds": (("0", "1", "7"), NUMBERS),
}
WEIGHTS = {
    "run": 6,
    "consolidate": 3,
    "evaluate": 2,
    "experiment": 5,
    "demo": 2,
    "play": 4,
    "export": 5,
    "reproduction": 2,
    "import": 2,
    "report": 2,
    "bench": 2,
}
MAX_WORDS = 16


class Sandbox:
    """A folder to run commands in, the names of what lies there, and a copy to restore it from."""

    def __init__(self, folder: Path, copy: Path, store: str, packs: tuple[str, ...], others: tuple[str, ...]) -> None:
        self.folder, self._copy = folder, copy
        self.store, self.packs = store, packs  # a finished run, and what `reaper export` wrote
        self.others = others  # damaged, missing, or something else
        shutil.copytree(copy, folder, symlinks=True)
        self._before = self._state()

    def changed(self) -> list[str]:
        """Paths that are new, gone or different since the last restore."""
        return sorted({path for path, _ in self._before.items() ^ self._state().items()})

    def restore(self, changed: list[str]) -> None:
        for name in {path.split("/")[0] for path in changed}:
            here, copy = self.folder / name, self._copy / name
            shutil.rmtree(here) if here.is_dir() and not here.is_symlink() else here.unlink(missing_ok=True)
            if copy.is_dir():
                shutil.copytree(copy, here, symlinks=True)
            elif os.path.lexists(copy):
                shutil.copy2(copy, here, follow_symlinks=False)
        assert not changed or not self.changed()

    def _state(self) -> dict[str, tuple[int, int]]:
        """Every path with its size and time of change."""
        found, left, skipped = {}, [str(self.folder)], len(str(self.folder)) + 1
        while left:
            for entry in os.scandir(left.pop()):
                status, directory = entry.stat(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
                name = entry.path[skipped:]
                found[name] = (0, 0) if directory else (status.st_size, status.st_mtime_ns)
                left += [entry.path] if directory else []
        return found


def make_sandbox(home: Path, store: Path, packs: dict[str, Path], old: Path) -> Sandbox:
    """`store` is a finished run, `packs` are files that `reaper export` wrote, `old` is a folder of version 0.1."""
    folder = home / "copy"
    (folder / "runs").mkdir(parents=True)
    shutil.copytree(store, folder / "good")
    shutil.copytree(old, folder / "old")
    damaged = ("bad header", "no header", "bad record", "bad stage", "bad json", "future")
    for name in damaged:
        shutil.copytree(store, folder / name, ignore=shutil.ignore_patterns("report"))
    (folder / "bad header" / "reaper.json").write_bytes(b"\x80\x04]q\x00.")  # how a pickle begins
    (folder / "no header" / "reaper.json").unlink()
    (folder / "future" / "reaper.json").write_text('{"format": 99}')
    _cut(next((folder / "bad record" / "runs").glob("*.json")))
    for path in (folder / "bad stage").glob("stages/*/agent.safetensors"):
        _cut(path)
    for path in (folder / "bad json").glob("stages/*/*.json"):
        path.write_text("[" * 10_000)
    for name, path in packs.items():
        shutil.copy(path, folder / name)
    _cut(Path(shutil.copy(folder / next(iter(packs)), folder / "cut.reaper")))
    (folder / "empty.reaper").touch()
    (folder / "noise.reaper").write_bytes(random.Random(0).randbytes(5_000))
    (folder / "text.md").write_text("text\n")
    (folder / "empty").mkdir()
    (folder / "full" / "inside").mkdir(parents=True)
    (folder / "full" / "file").write_text("file\n")
    (folder / "loop").symlink_to("loop")
    (folder / "nowhere").symlink_to("missing/target")
    (folder / "[bold]").mkdir()
    (folder / "line\nbreak").mkdir()
    others = (
        *(*damaged, "old", "cut.reaper", "empty.reaper", "noise.reaper", "text.md", "good/reaper.json"),
        *("empty", "full", "loop", "nowhere", "[bold]", "line\nbreak", "missing", "missing/deep/er", "text.md/below"),
        *("good/", "./good", "good/stages", "good/runs", "new.gif", "new.mp4", "new.reaper", "new.md", "x" * 300),
        *("new/deep/er.gif", "new\udcff", "neu\u0308", "new\n.gif", "[/].gif", "", ".", ".."),
        *("/", "/proc/version", "/proc/self/mem", "/proc/new"),
    )
    return Sandbox(home / "here", folder, "good", tuple(packs), others)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


class RandomCommands:
    """Yields random command lines; equal seeds yield equal lines."""

    def __init__(self, seed: int, sandbox: Sandbox) -> None:
        self._random, self._sandbox = random.Random(seed), sandbox
        actions = build_parser()._actions
        group = next(action for action in actions if isinstance(action, argparse._SubParsersAction))
        self._parsers = dict(group.choices)
        self._settings = setting_names()

    def __iter__(self) -> Iterator[list[str]]:
        names = [name for name in self._parsers for _ in range(WEIGHTS.get(name, 1))]
        while True:
            self._random.shuffle(names)
            yield from (self._line(name) for name in names)
            yield [self._junk() for _ in range(self._random.randrange(4))]

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def _line(self, command: str) -> list[str]:
        mistakes = self._random.choice((0.0, 0.1, 0.1, 0.2, 0.6))
        actions = [action for action in self._parsers[command]._actions if action.dest != "help" or self._happens(0.02)]
        optional = [action for action in actions if action.option_strings and not action.required]
        words = []
        for action in actions:
            if not action.option_strings and not self._happens(mistakes / 5):
                words += self._values(action, mistakes)
            elif action.required and action.option_strings and not self._happens(mistakes / 5):
                words += self._flag(action, mistakes)
        for action in self._random.sample(optional, self._random.randrange(min(6, len(optional)) + 1)):
            words += self._flag(action, mistakes)
        if command in ("run", "consolidate", "evaluate", "experiment"):
            words += [word for _ in range(self._random.choice((0, 0, 1, 2))) for word in self._setting(mistakes)]
        if command == "results":
            words += [self._random.choice(("--csv", "--json"))]
        if self._happens(mistakes / 3):
            words.insert(self._random.randrange(len(words) + 1), self._junk())
        return [command, *words[:MAX_WORDS]]

    def _flag(self, action: argparse.Action, mistakes: float) -> list[str]:
        name = action.option_strings[-1]
        name = self._slip(name) if self._happens(mistakes / 5) else name
        if action.nargs == 0:
            return [name]
        values = self._values(action, mistakes)
        return [f"{name}={values[0]}"] if values and self._happens(0.2) else [name, *values]

    def _values(self, action: argparse.Action, mistakes: float) -> list[str]:
        count = self._random.choice((1, 1, 2)) if action.nargs in ("+", "*") else 1
        if action.nargs == "?" and self._happens(0.2):
            return []
        return [self._value(action, mistakes) for _ in range(count)]

    def _value(self, action: argparse.Action, mistakes: float) -> str:
        right, tried = self._pools(action)
        if not self._happens(mistakes):
            return self._random.choice(right)
        wrong = (self._random.choice(tried), self._slip(self._random.choice(right)), self._junk())
        return self._random.choices(wrong, (3, 1, 1))[0]

    def _pools(self, action: argparse.Action) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Values that are right for an argument, and values that a person might try."""
        sandbox, folders = self._sandbox, ("missing", "empty", "missing/deep/er")
        places = {
            "out": ((sandbox.store, sandbox.store, *folders), (*sandbox.others, *sandbox.packs)),
            "outs": ((sandbox.store,), (*sandbox.others, *sandbox.packs)),
            "data": (("empty", "empty", "missing"), sandbox.others),
            "add": ((sandbox.store,), (*sandbox.others, *sandbox.packs)),
            "file": ((*sandbox.packs, "new.reaper"), sandbox.others),
            "path": ((sandbox.store, *sandbox.packs, "pretrained:arcade-3"), sandbox.others),
            "reuse": ((sandbox.store, sandbox.packs[0]), (*sandbox.packs[1:], *sandbox.others)),
            "continue_from": ((sandbox.store, *sandbox.packs, "pretrained:arcade-3"), sandbox.others),
            "old": (("old",), (*sandbox.others, sandbox.store)),
            "new": (folders, sandbox.others),
            "name": ((*EXPERIMENTS, "arcade-3"), ("Main", "atari-3")),
        }
        if action.choices:
            return tuple(map(str, action.choices)), ("all",)
        if action.dest in (*VALUES, *places):
            return VALUES.get(action.dest) or places[action.dest]
        if action.type is Path:
            return ("new.md", "new.gif", "new/deep/er.gif"), sandbox.others
        return ("1", "2", "3"), NUMBERS

    def _setting(self, mistakes: float) -> list[str]:
        name = self._random.choice((*self._settings, "ray.address", "ray.store", "ray.gpus-per-stage", "local.size"))
        value = self._random.choice(
            (*NUMBERS, "adam", "he", "gan") if self._happens(mistakes) else ("1", "1", "2", "0.5")
        )
        name = self._slip(name) if self._happens(mistakes / 5) else name
        return self._random.choice(([f"--{name}={value}"], [f"--{name}", value]))

    def _slip(self, word: str) -> str:
        """A slip of the finger."""
        place = self._random.randrange(len(word) + 1)
        missing, more = word[:place] + word[place + 1 :], word[:place] + self._junk() + word[place:]
        return self._random.choice((missing, more, word.upper(), word + word, f" {word} "))

    def _junk(self) -> str:
        return self._random.choice((*JUNK, *NUMBERS, *self._sandbox.others))

"""The sources of teachers, by their prefix: one row per kind of file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from reaper.errors import UserError
from reaper.plugins import Registry
from reaper.tasks.observation import ObservationSpec
from reaper.teachers.cleanrl import read_cleanrl
from reaper.teachers.files import TeacherFile
from reaper.teachers.functions import find_function, name_of, read_function
from reaper.teachers.own import read_own
from reaper.teachers.sb3 import read_sb3
from reaper.zoo import PREFIX as PRETRAINED

# Prefix -> (the whole source, what follows the prefix) -> the teacher. Packages add formats by entry points.
SOURCES: Registry[Callable[[str, str], TeacherFile]] = Registry("teacher source", "reaper.teacher_sources")
SOURCES["sb3"] = read_sb3
SOURCES["cleanrl"] = read_cleanrl


def open_teacher(source: str | Path | Callable[..., Any], observation: ObservationSpec) -> TeacherFile:
    """The teacher behind a source: `sb3:FILE.zip`, `cleanrl:ARCHITECTURE:FILE`, a path of ours, `pretrained:NAME`,
    `module:function`, or a callable. `observation` is what a function gets."""
    if callable(source):
        return read_function(name_of(source), source, observation)
    text = str(source)
    if not text:
        raise UserError("a teacher has no source: give --teacher TASK=SOURCE")
    prefix, colon, rest = text.partition(":")
    if colon and prefix in SOURCES:
        if not rest:
            raise UserError(f"{text} names no file")
        return SOURCES[prefix](text, rest)
    if text.startswith(PRETRAINED) or Path(text).exists():
        return read_own(text)
    if colon and all(part.isidentifier() for part in (*prefix.split("."), *rest.split("."))):
        return read_function(text, find_function(text), observation)
    known = ", ".join(f"{name}:FILE" for name in SOURCES)
    raise UserError(f"{text} is no source of a teacher: {known}, a path, {PRETRAINED}NAME or module:function")

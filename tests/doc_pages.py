"""What the documentation shows: its pages, their code blocks, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HISTORICAL = "<!-- historical -->"  # above a block whose commands belong to an earlier version
SHELL = ("sh", "bash", "console")

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src/reaper/zoo").glob("*.md")),
]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, except those that are marked as historical."""
    lines, inside, before = page.read_text().splitlines(), None, ""
    for number, line in enumerate(lines, 1):
        fence = re.match(r"\s*```(\w*)", line)
        if inside is None and fence:
            inside, language, start = [], fence[1], number
        elif inside is not None and fence:
            if HISTORICAL not in before:
                yield Block(page, start, language, "\n".join(inside))
            inside, before = None, ""
        elif inside is not None:
            inside.append(line)
        elif line.strip():
            before = line


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^[ ]*```.*?^[ ]*```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def in_backticks(page: Path) -> list[str]:
    """What the prose of a page quotes as code."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def shell_commands(block: Block) -> Iterator[list[str]]:
    """The commands of a shell block as words, without comments, prompts, redirections and what runs them."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        ends = [i for i, word in enumerate(words) if word in ("&", "&&", "|", ";") or re.match(r"\d?>", word)]
        words = words[: ends[0]] if ends else words
        while words and (words[0] in ("setsid", "nohup") or re.fullmatch(r"[A-Z_]+=.*", words[0])):
            words = words[1:]
        if words:
            yield words


def commands(program: str) -> list[tuple[str, list[str]]]:
    """Every call of a program in the shell blocks of all pages: where it is, and its arguments."""
    return [
        (block.where, words[1:])
        for page in PAGES
        for block in blocks(page)
        if block.language in SHELL
        for words in shell_commands(block)
        if words[0] == program
    ]

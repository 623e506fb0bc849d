"""Short titles of tasks, for tables and figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

GAMES = {"jamesbond": "James Bond", "qbert": "Q*bert"}  # where the name in the id is not the game's


def short_title(name: str) -> str:
    """A title for a Gymnasium id: Breakout for `Mini/breakout-v0`, Space Invaders for `SpaceInvadersNoFrameskip-v4`."""
    plain = name.rpartition(":")[2].rpartition("/")[2]
    plain = plain.removeprefix("MiniGrid-")
    plain = re.sub(r"(-?NoFrameskip|-?Deterministic)?(-v\d+)?$", "", plain)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", plain).replace("_", " ").replace("-", " ").split()
    title = " ".join(word[0].upper() + word[1:] for word in words)
    return GAMES.get(plain.lower(), title) or name


def distinct(titles: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The titles; where two tasks have the same one, their names."""
    return tuple(name if titles.count(title) > 1 else title for title, name in zip(titles, names, strict=True))

"""What MkDocs runs while it builds the site (mkdocs.yml)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from generated import fill_in


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fills in the parts of a page that are written from the code."""
    return fill_in(markdown)

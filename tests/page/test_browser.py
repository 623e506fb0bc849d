"""Reports opened in a browser: complete, self-contained, and readable on a phone."""

from __future__ import annotations

import base64
import getpass
import platform
import re
import shutil
from pathlib import Path

import pytest
from browser import find_browser, look_at
from handmade import FORGETS, KEEPS, atari_sequence, make_store

from reaper.report import rendering, rollouts, theme, videos
from reaper.report.page import write_report
from reaper.storage.store import Store
from reaper.study.conditions import MAIN

pytestmark = pytest.mark.skipif(find_browser() is None, reason="needs Chromium or Chrome, and none is installed")
WIDTHS = (1280, 400)
PAGES = ("finished", "half", "seeds", "nine")


@pytest.fixture(scope="module")
def pages(tmp_path_factory, tiny_run, half_finished, two_seeds) -> dict[str, Path]:
    """Reports on a finished run, an unfinished one, two seeds of one task, and the paper's nine conditions."""
    folder = tmp_path_factory.mktemp("pages")
    stores = {}
    for name, run in (("finished", tiny_run), ("half", half_finished), ("seeds", two_seeds)):
        stores[name] = Store.open(shutil.copytree(run, folder / name))
    matrices = {name: FORGETS if name == "no-reh" else KEEPS for name in MAIN}
    stores["nine"] = make_store(folder / "nine", matrices, atari_sequence(), seeds=(0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "DPI", 60)  # encoding large images and fonts would take most of the time
        patch.setattr(rendering, "as_pdf", lambda figure: None)
        written = {name: write_report(stores[name]) for name in ("finished", "nine")}
        patch.setattr(rollouts, "encoder", lambda: None)  # the others as on a machine without ffmpeg
        return written | {name: write_report(stores[name]) for name in ("half", "seeds")}


@pytest.fixture(scope="module")
def seen(pages, tmp_path_factory):
    return look_at(pages, WIDTHS, tmp_path_factory.mktemp("looks"))


def test_pages_load_without_errors(seen):
    found, console = seen
    assert console == []
    assert {name: look["errors"] for name, look in found.items() if look["errors"]} == {}
    assert set(found) == {f"{name} {width}" for name in PAGES for width in WIDTHS}


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_readable(seen, width):
    for name in PAGES:
        look = seen[0][f"{name} {width}"]
        assert look["overflow"] <= 0, f"{name} has to be scrolled sideways"
        assert look["outside"] == []
        assert look["small"] == 0, f"{name} has text of less than 11 pixels"
        # text in charts has 8 points or more at a width of 6.2 inches: legible from 500 pixels on
        assert all(image["shown"] >= 500 for image in look["images"] if image["chart"])


def test_every_image_and_video_loads(seen):
    for name in PAGES:
        images = seen[0][f"{name} 1280"]["images"]
        assert all(image["pixels"] > 0 and image["text"] for image in images)
    finished, half, nine = (seen[0][f"{name} 1280"] for name in ("finished", "half", "nine"))
    assert sum(image["chart"] for image in finished["images"]) == 3  # bars, curves, matrices
    # per task real and generated states, and two rows of neighbours; a task without generated states has one image less
    assert 5 <= sum("real" in image["text"] or "generated" in image["text"] for image in finished["images"]) <= 8
    assert sum("playing" in image["text"] for image in half["images"]) == 1, "without ffmpeg, an animated image"
    assert nine["videos"] == [], "runs without weights have no videos"
    if videos.encoder():
        assert len(finished["videos"]) == 2  # RePR and no-reh
        for video in finished["videos"]:
            assert video["error"] is None
            assert video["seconds"] > 1
            assert video["pixels"] > 300


def test_nothing_is_fetched_and_no_machine_is_named(pages):
    names = {getpass.getuser(), platform.node()} - {"root", ""}
    for path in pages.values():
        text = re.sub(r"data:[a-z/0-9]+;base64,[A-Za-z0-9+/=]+", "", path.read_text())
        assert not re.search(r"https?:|file:|//[a-z]|<script|<link|<iframe|@import|url\(", text)
        assert not re.search(r"""(?<![\w<./])/[a-z]+/""", text), "an absolute path"
        assert str(path.parents[1].parent.parent) not in text
        for name in names:
            assert not re.search(rf"\b{re.escape(name)}\b", text)
        assert path.stat().st_size < 15e6


def test_the_checks_detect_broken_pages(tmp_path):
    image = base64.b64encode(b"not an image").decode()
    page = tmp_path / "bad.html"
    page.write_text(
        "<html><head></head><body><p style='width:3000px;font-size:8px'>wide</p>"
        f"<img alt='x' src='data:image/png;base64,{image}'><video src='data:video/mp4;base64,AAAA'></video>"
        "<script>nowhere()</script></body></html>"
    )
    found, console = look_at({"bad": page}, (400,), tmp_path / "looks")
    look = found["bad 400"]
    assert console
    assert look["overflow"] > 2000
    assert (look["outside"], look["small"]) == (["P"], 1)
    assert look["images"][0]["pixels"] == 0
    assert look["videos"][0]["error"]
    assert len(look["errors"]) >= 2

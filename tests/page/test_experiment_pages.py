"""The page of each of the paper's experiments, from training to the browser, shrunk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from browser import find_browser, look_at
from conftest import run_plan, tiny_options

from reaper.report import rendering, theme
from reaper.report.page import write_report
from reaper.study.experiments import EXPERIMENTS, plan_experiment

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_browser() is None, reason="needs Chromium or Chrome, and none is installed"),
]
WIDTHS = (1280, 400)
OVERRIDES = {"evaluation.interval": 200}


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """The page after each experiment; all share one folder, so the last page shows all of them."""
    folder, written = tmp_path_factory.mktemp("experiments"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "DPI", 60)  # encoding large images and fonts would take most of the time
        patch.setattr(rendering, "as_pdf", lambda figure: None)
        for name in EXPERIMENTS:
            tasks = "arcade-6" if name == "extended" else "arcade-3"
            options = tiny_options(tasks=tasks, overrides=OVERRIDES)
            store = run_plan(plan_experiment(name, options), folder / "run")
            page = write_report(store)
            written[name] = Path(shutil.copy(page, folder / f"{name}.html"))
    return written


def test_every_experiment_has_a_readable_page(pages, tmp_path):
    found, console = look_at(pages, WIDTHS, tmp_path)
    assert console == []
    assert set(found) == {f"{name} {width}" for name in EXPERIMENTS for width in WIDTHS}
    for name, look in found.items():
        assert look["errors"] == [], name
        assert look["overflow"] <= 0, f"{name} has to be scrolled sideways"
        assert look["outside"] == [], name
        assert look["small"] == 0, name
        assert look["images"], name
        assert all(image["pixels"] > 0 and image["text"] for image in look["images"]), name
        assert all(video["error"] is None and video["seconds"] > 0 for video in look["videos"]), name
    for name, page in pages.items():
        text = page.read_text()
        assert f"Experiment {name}: " in text
        assert len(text) < 15e6

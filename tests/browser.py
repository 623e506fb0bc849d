"""Opens pages in headless Chromium and reports what they show at each width, and any errors."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-extensions", "--disable-sync", "--enable-logging=stderr",
)  # fmt: skip

# Injected into a page: reports its measurements once the videos' metadata is loaded.
_LOOK = """<script>
const found = {errors: []};
addEventListener("error", event => found.errors.push(String(event.message || event.target.tagName)), true);
addEventListener("load", async () => {
  const videos = [...document.querySelectorAll("video")];
  const ready = video => video.readyState > 0 || video.error;
  for (let i = 0; i < 200 && !videos.every(ready); i++) await new Promise(go => setTimeout(go, 25));
  const root = document.documentElement;
  found.overflow = root.scrollWidth - root.clientWidth;
  found.outside = [...document.querySelectorAll("h1, h2, h3, h4, p, figcaption, summary, li, dd, video")]
    .filter(part => part.getBoundingClientRect().right > root.clientWidth + 1).map(part => part.tagName);
  found.images = [...document.images].map(image => ({text: image.alt, pixels: image.naturalWidth,
    shown: image.getBoundingClientRect().width, chart: !!image.closest(".chart")}));
  found.videos = videos.map(video => ({seconds: video.duration, pixels: video.videoWidth,
    error: video.error && video.error.message}));
  found.small = [...document.querySelectorAll("p, td, th, dd, figcaption, summary, b, span")]
    .filter(part => part.textContent && parseFloat(getComputedStyle(part).fontSize) < 11).length;
  parent.postMessage({name: window.name, found}, "*");
});
</script>"""

# Contains the pages, each in a frame of its own width: a window cannot be made as narrow as a phone.
_AROUND = """<!doctype html><meta charset="utf-8"><pre id="all"></pre><script>
const all = {};
addEventListener("message", event => {
  all[event.data.name] = event.data.found;
  document.getElementById("all").textContent = JSON.stringify(all);
});
</script>"""


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def look_at(pages: dict[str, Path], widths: tuple[int, ...], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Measurements of each page at each width, under "name width", and all lines of the browser's console."""
    browser = find_browser()
    assert browser
    folder.mkdir(parents=True, exist_ok=True)
    around = _AROUND
    for name, path in pages.items():
        copy = folder / f"{name}.html"
        copy.write_text(path.read_text().replace("<head>", f"<head>{_LOOK}", 1))
        for width in widths:
            style = f"width:{width}px;height:900px"
            around += f'<iframe name="{name} {width}" style="{style}" src="{copy.as_uri()}"></iframe>'
    (folder / "around.html").write_text(around)
    args = [browser, *QUIET, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run(
        [*args, (folder / "around.html").as_uri()], capture_output=True, text=True, timeout=240, check=True
    )
    output = re.search(r'<pre id="all">(.*?)</pre>', done.stdout, re.DOTALL)
    assert output, "the browser showed nothing"
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(output[1]) or "{}"), console

"""The page's frame: style sheet and fixed texts. Everything is inline; nothing is fetched and no script runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from string import Template

from reaper.report.theme import DARK, LIGHT
from reaper.results.metrics import METRICS

_STYLE = Template("""
:root { color-scheme: light dark; --background: $light_background; --text: $light_text; --muted: $light_muted;
  --faint: $light_faint; }
@media (prefers-color-scheme: dark) {
  :root { --background: $dark_background; --text: $dark_text; --muted: $dark_muted; --faint: $dark_faint; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--background); color: var(--text);
  font: 17px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 3.5rem 1.25rem 5rem; }
h1 { font-size: clamp(1.55rem, 4.5vw, 2.3rem); line-height: 1.25; font-weight: 650; margin: 0 0 .6rem;
  letter-spacing: -.01em; text-wrap: balance; }
h2 { font-size: 1.45rem; line-height: 1.3; margin: 3.5rem 0 .8rem; }
h3 { font-size: 1.05rem; margin: 2.2rem 0 .5rem; }
p { margin: .7rem 0; }
p, figcaption, .caveats { max-width: 46rem; }
.chart { display: block; max-width: 52rem; }
.subtitle { color: var(--muted); margin: 0 0 1.6rem; }
.note, figcaption { color: var(--muted); font-size: .88rem; line-height: 1.5; }
figure { margin: 2.2rem 0; }
img { display: block; width: 100%; height: auto; }
figcaption { margin-top: .6rem; }
.caveats { margin: 1rem 0; padding: .7rem 1rem .7rem 2rem; border-left: 3px solid var(--muted);
  background: var(--faint); border-radius: 0 6px 6px 0; font-size: .92rem; }
.wide { overflow-x: auto; }
h4 { font-size: .95rem; margin: 0 0 .4rem; }
video { display: block; width: 100%; height: auto; }
.pixels { image-rendering: pixelated; }
.states { display: grid; grid-template-columns: 5rem 1fr 1fr; gap: 0 1rem; align-items: center; margin: .35rem 0; }
.states span:empty { display: none; }
.states b, .pair b { font-size: .86rem; font-weight: 600; line-height: 1.3; }
.states > span { font-size: .86rem; color: var(--muted); }
.pairs { margin-top: 1.1rem; padding-top: .9rem; border-top: 1px solid var(--faint); }
.pair { display: grid; grid-template-columns: 5rem 1fr; gap: 0 1rem; align-items: center; margin: .35rem 0; }
.videos { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); gap: 1.6rem; }
.video { margin: .6rem 0 0; min-width: 0; }
.screen { display: grid; grid-template-columns: 1.3rem 1fr; gap: .25rem; }
.screen .columns { grid-column: 2; display: grid; grid-template-columns: repeat(var(--count), 1fr); }
.screen .rows { display: grid; grid-template-rows: repeat(var(--count), 1fr); }
.screen .columns, .screen .rows { font-size: .76rem; line-height: 1.2; text-align: center; color: var(--muted);
  overflow: hidden; }
.screen .rows b { writing-mode: vertical-rl; transform: rotate(180deg); font-weight: 600; overflow: hidden; }
.screen video, .screen img { border-radius: 4px; }
table { border-collapse: separate; border-spacing: 0; font-size: .86rem; font-variant-numeric: tabular-nums;
  width: 100%; }
th, td { padding: .42rem .55rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--faint); }
th:first-child { text-align: left; padding-left: 0; }
td:last-child, th:last-child { padding-right: .2rem; }
thead th { color: var(--muted); font-weight: 500; white-space: normal; vertical-align: bottom;
  border-bottom: 1px solid var(--muted); }
tbody th { font-weight: 600; }
.words, thead .words { white-space: normal; min-width: 9rem; line-height: 1.35; text-align: left; }
.wide th:first-child { position: sticky; left: 0; background: var(--background); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: 1rem 0; font-size: .92rem; }
dt { font-weight: 600; }
dd { margin: 0; color: var(--muted); overflow-wrap: anywhere; }
details { margin: 1.5rem 0; padding: .8rem 1.1rem; border: 1px solid var(--faint); border-radius: 8px; }
details + details { margin-top: -.7rem; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 520px) {
  main { padding: 2rem 1rem 3rem; } body { font-size: 16px; }
  dl { gap: .25rem .8rem; }
  .chart { min-width: 34rem; }
  .states { grid-template-columns: 1fr 1fr; gap: .2rem .6rem; } .states b, .pair b { grid-column: 1 / -1; }
  .states b:empty { display: none; } .pair { grid-template-columns: 1fr; } }
@media print { details { border: none; padding: 0; } }
""")

STYLE = _STYLE.substitute(
    {
        f"{name}_{part}": getattr(theme, part)
        for name, theme in (("light", LIGHT), ("dark", DARK))
        for part in ("background", "text", "muted", "faint")
    }
)

LEAD = (
    "An agent learns one task after another and never sees the earlier ones again. This page shows what it can still "
    "do at the end."
)


_MEMORY = (
    "all that is passed from one task to the next: the network, and what the condition needs to retain earlier tasks"
)


def explanation(conditions: Iterable[tuple[str, str]]) -> str:
    """How to read the page; `conditions` are pairs of name and meaning."""
    metrics = [*((metric.name, metric.definition) for metric in METRICS.values()), ("memory", _MEMORY)]
    return f"""
<p>All tasks share one network of fixed size. Trained on a new task, an ordinary network overwrites what it knew: it
forgets. The conditions deal with this in different ways, from doing nothing to rehearsing stored or generated
experience:</p>
{definition_list(conditions)}
<p>Scores are <em>normalised</em> to make them comparable: 0 is random play, 1 is a DQN trained on that task alone. The
metrics are computed from normalised scores:</p>
{definition_list(metrics)}
"""


def definition_list(pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f"<dl>{items}</dl>" if items else ""


def html_list(texts: Sequence[str], kind: str) -> str:
    """A bulleted list of escaped texts; nothing for none."""
    return f'<ul class="{kind}">{"".join(f"<li>{escape(text)}</li>" for text in texts)}</ul>' if texts else ""


def prose(text: str) -> str:
    """Escaped, with no line break between a number and its per cent sign."""
    return escape(text).replace(" %", "&nbsp;%")


def page(headline: str, subtitle: str, *, explanation: str, sections: str, provenance: str) -> str:
    """The whole document; headline and subtitle are escaped text, the others HTML."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{headline}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{headline}</h1>
<p class="subtitle">{subtitle}</p>
<p>{LEAD}</p>
<details><summary>How to read this page</summary>{explanation}</details>
{sections}
<section><h2>How these results were produced</h2>{provenance}</section>
</main>
</body>
</html>
"""

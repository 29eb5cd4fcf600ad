# SPDX-License-Identifier: GPL-3.0-or-later
"""Write pages of HTML that hold all they show, and are light or dark as the reader's system is."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from fl_app.pictures import inline_svg, page_colours
from fl_app.runs.versions import dates_text, versions, versions_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = (
    f"""
:root {{ {page_colours(is_dark=False)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {page_colours(is_dark=True)} }} }}
"""
    + """
:root { color-scheme: light dark; --ink: #222222; --paper: #ffffff; --faint: #555555; --line: #dddddd; --code: #f2f2f2;
  --link: #0b5cad; --bad: #aa0000; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e4e4e4; --paper: #16181c; --faint: #a5a9b0;
  --line: #3a3e45; --code: #24272d; --link: #7ab7f5; --bad: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } a { color: var(--link); }
table { border-collapse: collapse; } td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
tr + tr { border-top: 1px solid var(--line); } td { font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } figcaption, footer { color: var(--faint); }
figure svg, figure img { display: block; max-width: 100%; height: auto; } figure img { width: 44rem; }
@media screen and (prefers-color-scheme: dark) { figure svg image { filter: brightness(1.25); } }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; } figure img { background: #fff; }
.settings { columns: 2 22rem; } .settings table { break-inside: avoid; margin-bottom: 1rem; }
.settings td { overflow-wrap: anywhere; }
table.points td, table.points th { white-space: nowrap; text-align: right; }
table.points tr > :first-child { text-align: left; }
.wide { overflow-x: auto; } .failed { color: var(--bad); white-space: pre-wrap; }
caption { text-align: left; font-weight: 600; } code { background: var(--code); padding: .1rem .3rem; }
footer { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: .5rem; }
"""
)


def html_page(title: str, body: str, sessions: Sequence[Mapping[str, Any]], style: str = "") -> str:
    """Return a page with its title; at its end stand the versions and the date of the runs, and those of the page."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    trained = f"Trained {dates_text(sessions)} with {versions_text(sessions)}. " if sessions else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}{style}</style></head>
<body>
{body}
<footer><p>{escape(trained)}Page of {now}, gr-oac {escape(versions()["gr-oac"])}.</p></footer>
</body>
</html>
"""


def html_table(caption: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    body = "".join(f"<tr><th>{escape(what)}</th><td>{escape(value)}</td></tr>" for what, value in lines)
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{body}</table>"


def html_grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with headings, whose cells are HTML already."""
    lines = ["".join(f"<th>{escape(heading)}</th>" for heading in headings)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    return f'<div class="wide"><table class="points">{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


def html_figure(figure: Figure | bytes, name: str, caption: str) -> str:
    """Return a figure with its caption; one that exists as a PNG file alone is shown on white."""
    if isinstance(figure, bytes):
        source = base64.b64encode(figure).decode()
        shown = f'<img alt="{escape(caption)}" src="data:image/png;base64,{source}">'
    else:
        shown = inline_svg(figure, name, caption)
    return f"<figure>{shown}<figcaption>{escape(caption)}</figcaption></figure>"

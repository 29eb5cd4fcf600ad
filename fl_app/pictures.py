# SPDX-License-Identifier: GPL-3.0-or-later
"""Save figures in one place: files for papers (PNG, SVG, PDF), and SVG for a page that is light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130
FORMATS = ("png", "svg", "pdf")
# Colours of Okabe and Ito, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
ALWAYS_WHITE = "#fefefe"  # text on a dark patch, which stays white on a dark page; pure white becomes the page's colour

# Without the date and with a fixed salt for its ids, the same figure is the same file.
_SALT: dict[Any, str] = {"svg.hashsalt": "gr-oac"}
_METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
REM_PER_INCH = 6.3  # so that the labels are a little smaller than the text of the page
# The first six of COLOURS on a dark page: lighter, with the same hues.
_DARK_COLOURS = ("#4BA6E8", "#F08A4B", "#2CC79A", "#E39CC6", "#F0B93A", "#8FD0F7")
_ON_PAGES = {"#000000": "currentColor", "#ffffff": "var(--paper)", "#cccccc": "var(--line)"}
_ON_PAGES |= {colour.lower(): f"var(--series-{number})" for number, colour in enumerate(COLOURS[:-1])}


def page_colours(is_dark: bool) -> str:
    """Return the CSS variables of the figures' colours, for a light or a dark page."""
    colours = _DARK_COLOURS if is_dark else COLOURS[:-1]
    return " ".join(f"--series-{number}: {colour};" for number, colour in enumerate(colours))


def save_figure(figure: Figure, stem: Path, formats: Collection[str] = ("png",)) -> None:
    """Write a figure as STEM.png, STEM.svg or STEM.pdf; the folder is made if it is missing."""
    import matplotlib

    stem.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_SALT):
        for suffix in formats:
            path = stem.parent / f"{stem.name}.{suffix}"
            figure.savefig(path, dpi=DPI, metadata=_METADATA.get(suffix))


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """Return a figure as an <svg> element that refers to nothing outside.

    A page with a dark background has lighter colours (`page_colours`): black becomes the colour of its text, white that
    of its background, and `COLOURS` become colours of the same order.

    Parameters
    ----------
    figure : Figure
        Its background is left out.
    name : str
        Distinguishes the ids of this figure from those of the others on the page.
    description : str
        Says what the figure shows, for people who cannot see it.
    """
    import matplotlib

    stream = io.StringIO()
    with matplotlib.rc_context(_SALT):
        figure.savefig(stream, format="svg", transparent=True, metadata=_NO_METADATA)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)  # HTML knows the namespaces
    text = re.sub("#[0-9a-f]{6}", lambda match: _ON_PAGES.get(match[0], match[0]), text)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    width = REM_PER_INCH * figure.get_figwidth()
    opening = f'<svg role="img" aria-label="{escape(description)}" fill="currentColor" style="width: {width:.1f}rem"'
    return re.sub(r'^<svg width="[^"]*" height="[^"]*"', opening, text, count=1)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Save figures in one place: files for papers (PNG, SVG, PDF), and SVG for a page that is light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 130
FORMATS = ("png", "svg", "pdf")
# Colours of Okabe and Ito, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
ALWAYS_WHITE = "#fefefe"  # text on a dark patch, which stays white on a dark page; pure white becomes the page's colour

# Without the date and with a fixed salt for its ids, the same figure is the same file.
_SALT = {"svg.hashsalt": "gr-oac"}
_METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


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

    Black becomes the text colour of the page, white its background (the CSS variable --paper), so that the figure can be
    read on a dark page, too.

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
    text = text.replace("#000000", "currentColor").replace("#ffffff", "var(--paper)")
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    opening = f'<svg class="figure" role="img" aria-label="{escape(description)}" fill="currentColor"'
    return re.sub(r'^<svg width="[^"]*" height="[^"]*"', opening, text, count=1)

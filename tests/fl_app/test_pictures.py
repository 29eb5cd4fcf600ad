# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures as files and as part of a page."""

import re

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fl_app.pictures import COLOURS, FORMATS, inline_svg, page_colours, save_figure
from fl_app.runs.page import html_figure, html_page
from tests.support.html import assert_stands_alone


def make_figure():
    """Every colour as a line, with a legend, a picture and text in the figure."""
    figure = Figure(figsize=(5, 3))
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for number, colour in enumerate(COLOURS):
        left.plot([0, 1], [number, number], "o-", color=colour, label=f"<{number}> & more")
    left.legend()
    right.imshow([[0, 1], [1, 0]], interpolation="none")
    return figure


def test_the_same_figure_is_the_same_file_in_every_format(tmp_path):
    for name in ("one", "deep/v1.5 other"):
        save_figure(make_figure(), tmp_path / name, FORMATS)
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for suffix in FORMATS:
        one, other = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("one", "deep/v1.5 other"))
        assert one == other
        assert one.startswith(starts[suffix])


def test_a_figure_in_a_page_takes_its_colours_from_the_page():
    svg = inline_svg(make_figure(), "mine", 'what "it" shows')
    assert svg.startswith('<svg role="img" aria-label="what &quot;it&quot; shows" fill="currentColor"')
    assert "http" not in svg
    for colour in (*COLOURS, "#ffffff"):
        assert colour.lower() not in svg.lower()
    used = set(re.findall(r"var\((--[\w-]+)\)", svg))
    assert used == {"--paper", "--line", *(f"--series-{number}" for number in range(6))}
    for is_dark in (False, True):
        assert used - {"--paper", "--line"} == set(re.findall(r"(--series-\d):", page_colours(is_dark)))


def test_figures_in_one_page_do_not_share_an_id():
    figures = html_figure(make_figure(), "one", "A & B") + html_figure(make_figure(), "two", "C")
    page = html_page("a <title>", figures, [])
    shown = assert_stands_alone(page)
    assert shown.counts["svg"] == 2
    assert len(shown.ids) > 20
    assert "A & B" in shown.words
    # What the page's style sets for light is set for dark, too.
    light, dark = (set(re.findall(r"(--\w[\w-]*):", part)) for part in light_and_dark(page))
    assert light == dark >= {"--paper", "--ink"}


def light_and_dark(page):
    """The rules of the style outside and inside of @media for a dark screen."""
    style = re.search("<style>(.*?)</style>", page, re.DOTALL)[1]
    dark = re.findall(r"@media screen and \(prefers-color-scheme: dark\) \{(.*?\})\s*\}", style, re.DOTALL)
    return re.sub(r"@media.*?\}\s*\}", "", style, flags=re.DOTALL), "".join(dark)


def contrast(one, other):
    """The contrast ratio of WCAG 2."""
    lights = []
    for colour in (one, other):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(lights) / min(lights)


@pytest.mark.parametrize("is_dark", [False, True])
def test_text_and_links_can_be_read_and_dark_lines_be_seen(is_dark):
    """WCAG 2 asks for 4.5 where there is text, and 3 for what a picture is made of."""
    rules = light_and_dark(html_page("", "", []))[is_dark]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6});", rules))
    for name in ("ink", "faint", "link", "bad"):
        assert contrast(colours[name], colours["paper"]) > 4.5, name
    if is_dark:  # on white they are the colours of Okabe and Ito, whatever their contrast
        for number in range(6):
            assert contrast(colours[f"series-{number}"], colours["paper"]) > 3

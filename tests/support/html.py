# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a page of HTML strictly: its elements are closed in order, its ids are unique, and it fetches nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "link", "input"}
FETCHING = {"src", "srcset", "data", "poster", "xlink:href", "action"}  # and href, except that of a link to click
STYLED = re.compile(r"""url\(['"]?([^)'"]*)|@import\s+['"]?([^;'"]*)""")  # what a style refers to


class Page(HTMLParser):
    """Hold what a page refers to; AssertionError if it is not well formed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []  # what a reader may click
        self.fetched: list[str] = []  # what a browser loads by itself
        self.ids: list[str] = []
        self.counts: dict[str, int] = {}
        self.words = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"
        self.fetched += [url for found in STYLED.findall(text) for url in found if url]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in VOID:
            self._open.append(tag)
        self._note(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> without its beginning"
        assert self._open.pop() == tag, f"</{tag}> closes another element, at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("style", "script"):
            self.words += data

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name == "href" or name in FETCHING:
                self.fetched.append(value or "")


def assert_stands_alone(text: str) -> Page:
    """Assert that a browser that opens the page fetches nothing: all references lead into the page."""
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids), "an id stands twice"
    outside = [one for one in page.fetched if not one.startswith(("#", "data:"))]
    assert outside == []
    assert {one[1:] for one in page.fetched if one.startswith("#")} <= set(page.ids)
    assert "script" not in page.counts
    return page

# SPDX-License-Identifier: GPL-3.0-or-later
"""Set the formulas of the pages as MathML: a hook of mkdocs (mkdocs.yml names it).

A page has TeX between dollar signs, which GitHub shows as a formula too. The Markdown extension arithmatex finds it;
latex2mathml makes MathML of it, which browsers set by themselves. So a page needs no script, and works from a disk.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What arithmatex makes of $...$ and $$...$$ with `generic: true`.
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_page: Any) -> str:
    """Return the page with MathML in place of TeX; a formula that cannot be read ends the build."""
    return _FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[1] == "div" else "inline"
    tex = html.unescape(found[2]).strip()
    formula = convert(tex, display=display)
    if "\\" in formula or "&#x0005C;" in formula:
        raise ValueError(f"latex2mathml does not know a command in the formula {tex}")
    return f'<div class="formula">{formula}</div>' if display == "block" else formula

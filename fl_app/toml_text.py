# SPDX-License-Identifier: GPL-3.0-or-later
"""Write settings as TOML text with comments, by tomlkit, and read single TOML values from a command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tomlkit.items import Item

LARGE = 1e6  # floats of this size or more are written with an exponent: 2.4e+09 is easier to read than ten digits


def to_toml(sections: Mapping[str, Mapping[str, Any]], comments: Mapping[tuple[str, str], str] | None = None) -> str:
    """Return sections of plain values as the text of a TOML file.

    Parameters
    ----------
    sections : mapping
        The values by section and key.
    comments : mapping, optional
        By (section, key): what is written behind the value.
    """
    import tomlkit

    document = tomlkit.document()
    for section, values in sections.items():
        table = tomlkit.table()
        for key, value in values.items():
            item = _item(value)
            if comment := (comments or {}).get((section, key)):
                item.comment(comment)
                item.trivia.comment_ws = "  "
            table.add(key, item)
        document.add(section, table)
    return tomlkit.dumps(document)


def value_text(value: Any) -> str:
    """Return one value as TOML writes it."""
    return _item(value).as_string()


def parse_value(text: str) -> Any:
    """Return what `0.2`, `true`, `[1, 2]` or `"a b"` is in a TOML file; anything else is a string without quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}\n")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def _item(value: Any) -> Item:
    import tomlkit

    if isinstance(value, float) and abs(value) >= LARGE and float(f"{value:g}") == value:
        return tomlkit.value(f"{value:g}")
    if isinstance(value, Mapping):  # in one line, since a table of its own would end the section
        table = tomlkit.inline_table()
        table.update({key: _item(one) for key, one in value.items()})
        return table
    return tomlkit.item(value)

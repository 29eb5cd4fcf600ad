# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings as TOML text, and single TOML values from a command line (the standard library only reads whole files)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any


def to_toml(sections: Mapping[str, Mapping[str, Any]], comments: Mapping[tuple[str, str], str] | None = None) -> str:
    """Sections of plain values as TOML. A value None stands for "not set": TOML has no word for it, so it is left out.

    comments: by (section, key), written behind the value.
    """
    blocks = []
    for section, values in sections.items():
        lines = [f"[{section}]"]
        for key, value in values.items():
            if value is None:
                continue
            comment = (comments or {}).get((section, key))
            lines.append(f"{key} = {value_text(value)}" + (f"  # {comment}" if comment else ""))
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def value_text(value: Any) -> str:
    """One value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and abs(value) >= 1e6 and float(f"{value:g}") == value:
        return f"{value:g}"  # 2.4e+09 is easier on the eye than ten digits
    if isinstance(value, int | float):
        return repr(value)  # also inf and nan; the shortest text that reads back as the same number
    if isinstance(value, str | PurePath):
        # JSON's strings are TOML's, but for DEL, which TOML wants escaped.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(entry) for entry in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {value_text(entry)}" for key, entry in value.items()) + " }"
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written as TOML")


def parse_value(text: str) -> Any:
    """`0.2`, `true`, `[1, 2]`, `"a b"` as in a TOML file; anything else is a string without quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}\n")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text

# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/reference/config.md: every key of a config with type, default, allowed values and meaning, from the settings.

.venv/bin/python docs/figures/config_reference.py writes it anew; tests/docs/test_reference.py compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from docs.figures.markdown import table  # noqa: E402  (the repository need not be installed)
from fl_app.config import Settings  # noqa: E402
from fl_app.toml_text import to_toml  # noqa: E402
from oac_blocks.bench.section import NONE, none_word  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "config.md"
HEAD = """\
<!-- SPDX-License-Identifier: GPL-3.0-or-later -->
<!-- made by docs/figures/config_reference.py, do not edit -->
# Config keys

A config is a TOML file in sections; a missing key has its default. `fl_app show-config` prints a whole config with the
same explanations, and `--set section.key=value` changes one value in any command that takes a config. The shipped
configs are listed in [the learning app](../learning-app.md#settings).
"""
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "table"}


def page() -> str:
    """Return the whole page."""
    settings = Settings()
    parts = [HEAD.rstrip()]
    for name, part in settings:
        fields, comments = type(part).model_fields, type(part).comments()
        rows = [
            (f"`{key}`", _type(field), _written(key, getattr(part, key)), _meaning(comments[key], field))
            for key, field in fields.items()
        ]
        parts += [f"## [{name}]", table(("key", "type", "default", "meaning and allowed values"), rows)]
    return "\n\n".join(parts) + "\n"


def _type(field: FieldInfo) -> str:
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not NoneType]
    origin = get_origin(field.annotation)
    if origin is Literal:
        return "one of these"
    if origin in (list, tuple):
        return "list"
    if origin is dict:
        return "table"
    return " or ".join(dict.fromkeys(WORDS.get(get_origin(kind) or kind, "one of these") for kind in kinds))


def _written(key: str, value: Any) -> str:
    """Return a value as TOML writes it."""
    if value is None:
        return ""
    plain = list(value) if isinstance(value, tuple) else value
    text = to_toml({"section": {key: plain}}).split("=", 1)[-1].strip() if plain != {} else "{}"
    return f"`{text}`"


def _meaning(comment: str, field: FieldInfo) -> str:
    text = comment.replace("|", "\\|")
    return f'{text}; the default is "{NONE}"' if field.default is None and none_word(field) else text


if __name__ == "__main__":
    PAGE.write_text(page())

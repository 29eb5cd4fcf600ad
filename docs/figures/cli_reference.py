# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/reference/cli.md: every command with its arguments and options, from the programs themselves.

.venv/bin/python docs/figures/cli_reference.py writes it anew; tests/docs/test_reference.py compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from calibration.cli import app as calibrate  # noqa: E402  (the repository need not be installed)
from docs.figures.markdown import table  # noqa: E402
from fl_app.cli.app import app as fl_app  # noqa: E402
from oac_blocks.cli import app as oac_blocks  # noqa: E402
from oac_blocks.radio.virtual.cli import app as virtual_pluto  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "cli.md"
APPS = {
    "fl_app": fl_app,
    "oac-blocks": oac_blocks,
    "oac-calibrate": calibrate,
    "oac-virtual-pluto": virtual_pluto,
}
HEAD = """\
<!-- SPDX-License-Identifier: GPL-3.0-or-later -->
<!-- made by docs/figures/cli_reference.py, do not edit -->
# Command line

The four programs with all their commands. `--help` behind any of them prints the same. An option that stands for a
key of a config has the key's default ([all keys](config.md)).
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD.rstrip()]
    for name, app in APPS.items():
        program = typer.main.get_command(app)
        parts.append(f"## {name}")
        parts += _described(program) if not hasattr(program, "commands") else [_text(program.help)]
        for words, command in _commands(name, program):
            parts += [f"### {words}", *_described(command)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _commands(words: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from _commands(f"{words} {name}", command)
        elif not command.hidden:
            yield f"{words} {name}", command


def _described(command: Any) -> list[str]:
    shown = [parameter for parameter in command.params if not parameter.hidden and parameter.name != "help"]
    rows = [(_names(parameter), _default(parameter), _help(parameter)) for parameter in shown]
    return [_text(command.help), table(("argument or option", "default", "meaning"), rows) if rows else ""]


def _text(text: str | None) -> str:
    """Return a help text as Markdown: examples as code, the rest as it is."""
    lines = []
    for line in (text or "").strip().splitlines():
        head, example, rest = line.partition("Example: ")
        if example and not head.strip():
            lines.append(f"    {rest}")
        else:
            lines.append(line.strip())
    text = "\n".join(lines)
    # An indented block needs an empty line before it.
    return text.replace("\n    ", "\n\n    ").replace("\n\n\n", "\n\n")


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name).upper()
        return f"`{name}`" if parameter.required else f"`[{name}]`"
    value = "" if parameter.is_flag else f" {parameter.metavar or _kind(parameter)}"
    names = ", ".join(f"`{name}{value}`" for name in parameter.opts)
    return names + "".join(f", `{name}`" for name in parameter.secondary_opts)


def _kind(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    name = getattr(annotation, "__name__", str(annotation))
    if name == "list":
        name = annotation.__args__[0].__name__
    return {"str": "TEXT", "int": "N", "float": "X", "Path": "PATH"}.get(name, name.upper())


def _default(parameter: Any) -> str:
    default = parameter.default
    if default is None or default == "" or default == [] or callable(default):
        return "required" if parameter.required else ""
    if isinstance(default, bool):
        return f"`{parameter.opts[0] if default else parameter.secondary_opts[0]}`" if parameter.secondary_opts else ""
    return f"`{getattr(default, 'value', default)}`"


def _help(parameter: Any) -> str:
    text = " ".join((parameter.help or "").split()).replace("|", "\\|")
    if parameter.multiple:
        text += " May be given more than once."
    limits = [f"{word} {value}" for word, value in (("at least", parameter.min), ("at most", parameter.max)) if value]
    return f"{text} ({', '.join(limits)})" if limits else text


if __name__ == "__main__":
    PAGE.write_text(page())

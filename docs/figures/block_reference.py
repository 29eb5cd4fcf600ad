# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference of all blocks in docs/blocks.md, from the descriptions that Companion reads (oac_blocks/grc).

.venv/bin/python docs/figures/block_reference.py writes it anew; tests/blocks/companion/qa_block_reference.py compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from docs.figures.markdown import table  # noqa: E402  (the repository is no installed package)

DESCRIPTIONS = ROOT / "oac_blocks" / "grc"
PAGE = ROOT / "docs" / "blocks.md"
BEGIN = "<!-- begin of the reference: made by docs/figures/block_reference.py, do not edit -->"
END = "<!-- end of the reference -->"


def descriptions() -> list[dict[str, Any]]:
    found = [yaml.safe_load(file.read_text()) for file in DESCRIPTIONS.glob("*.block.yml")]
    return sorted(found, key=lambda description: description["label"])


def reference() -> str:
    """Return the reference of all blocks, in the order of their labels."""
    return "\n\n".join(_block(description) for description in descriptions())


def page_with(text: str) -> str:
    """Return docs/blocks.md with this text between its marks."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}"


def _block(description: dict[str, Any]) -> str:
    parts = [
        f"### {description['label']}",
        f"`{description['templates']['imports']}`",
        table(("port", "direction", "carries"), _ports(description)),
    ]
    if description.get("parameters"):
        settable = "\n".join(description["templates"].get("callbacks", []))
        rows = [_parameter(parameter, settable) for parameter in description["parameters"]]
        parts.append(table(("parameter", "in Companion", "type", "default", "while it runs"), rows))
    parts.append(f"```text\n{description['documentation'].strip()}\n```")
    return "\n\n".join(parts)


def _ports(description: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for direction, key in (("in", "inputs"), ("out", "outputs")):
        for number, port in enumerate(description.get(key, [])):
            name = port.get("id") or port.get("label") or str(number)
            rows.append((f"`{name}`", direction, _carried(port)))
    return rows


def _carried(port: dict[str, Any]) -> str:
    if port["domain"] == "message":
        return "messages, may stay open" if port.get("optional") else "messages"
    length, many = _expression(port.get("vlen")), _expression(port.get("multiplicity"))
    items = f"vectors of `{length}` {port['dtype']} items" if length else f"{port['dtype']} items"
    return f"{items}, one port for each of `{many}`" if many else items


def _expression(text: Any) -> str:
    return str(text or "").removeprefix("${").removesuffix("}").strip()


def _parameter(parameter: dict[str, Any], settable: str) -> tuple[str, ...]:
    name, kind = parameter["id"], parameter["dtype"]
    if parameter.get("options") and kind in ("enum", "raw"):
        kind = "one of " + ", ".join(f"`{option}`" for option in parameter["options"])
    label = str(parameter["label"]).replace("|", "\\|")
    return f"`{name}`", label, kind, f"`{parameter['default']}`", f"`set_{name}`" if f"set_{name}(" in settable else ""


if __name__ == "__main__":
    PAGE.write_text(page_with(reference()))

# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tutorials/one-round.md and its pictures, from the notebook examples/one_round.ipynb as it was last run.

.venv/bin/python docs/figures/one_round.py writes them anew; tests/docs/test_reference.py compares.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "one_round.ipynb"
PAGE = ROOT / "docs" / "tutorials" / "one-round.md"
IMAGES = ROOT / "docs" / "images"
HEAD = """\
<!-- SPDX-License-Identifier: GPL-3.0-or-later -->
<!-- made by docs/figures/one_round.py from examples/one_round.ipynb, do not edit -->
"""
HINT = """\
!!! tip "Run it yourself"
    This page is the notebook `examples/one_round.ipynb`. In a checkout: `pip install notebook`, then
    `jupyter notebook examples/one_round.ipynb`. Change `N`, the SNR or the policy, and run the cells again.
"""
TAIL = """\
## Where to go from here

- [Over-the-air computation](../explanation/over-the-air.md) explains why the sum needs no channel knowledge.
- [FAIR-k](../explanation/fair-k.md) has the formulas of steps 2 and 7.
- [Your own model, policy and scheme](own-parts.md) changes them.
"""


def page() -> str:
    """Return the whole page."""
    parts, heading = [HEAD.rstrip()], ""
    for cell in _cells():
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            heading = [line.lstrip("# ") for line in source.splitlines() if line.startswith("#")][-1]
            continue
        parts.append(f"```py\n{source}\n```")  # not "python": the notebook itself is run by a test
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                parts.append(f"![{heading}](../images/{_image_name(cell)})")
            elif "text" in output:
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
    parts.insert(2, HINT.rstrip())
    return "\n\n".join([*parts, TAIL])


def images() -> dict[str, bytes]:
    """Return the pictures of the notebook by their file names."""
    found = {}
    for cell in _cells():
        for output in cell.get("outputs", []):
            if encoded := output.get("data", {}).get("image/png"):
                found[_image_name(cell)] = base64.b64decode("".join(encoded))
    return found


def _cells() -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cells):
        cell["number"] = number
    return cells


def _image_name(cell: dict[str, Any]) -> str:
    return f"one_round_{cell['number']}.png"


if __name__ == "__main__":
    PAGE.write_text(page())
    for name, content in images().items():
        (IMAGES / name).write_bytes(content)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the package and what it brings for Companion are."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
BLOCKS = PACKAGE / "grc"
FLOWGRAPHS = PACKAGE / "flowgraphs"

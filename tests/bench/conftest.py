# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the bench also run the programs that Companion makes of our flowgraphs."""

from tests.blocks.companion.conftest import compiled

__all__ = ["compiled"]

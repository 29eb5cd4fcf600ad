# SPDX-License-Identifier: GPL-3.0-or-later
"""Which round of a flowgraph a message is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from oac_blocks.dsp.checks import integer


class Call(NamedTuple):
    """A round. Who was started anew counts anew, as another run."""

    round: int
    run: int


def call_of(about: Mapping[str, Any]) -> Call:
    """From a message's dictionary; ValueError if it names none."""
    return Call(integer("round", about.get("round"), 0), integer("run", about.get("run"), 0))

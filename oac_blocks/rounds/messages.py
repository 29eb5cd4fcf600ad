# SPDX-License-Identifier: GPL-3.0-or-later
"""Which round, and which clients, a message of the radios is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from oac_blocks.dsp.checks import integer


class Call(NamedTuple):
    """A round. Who was started anew counts anew, as another run."""

    round: int
    run: int


def call_of(about: Mapping[str, Any]) -> Call:
    """From a message's dictionary; ValueError if it names none."""
    return Call(integer("round", about.get("round"), 0), integer("run", about.get("run"), 0))


def listed(clients: Iterable[int]) -> str:
    """Return client numbers as a message carries them: "0, 2"; no clients are an empty text."""
    return ", ".join(str(client) for client in sorted(clients))


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the client numbers of a text that ``listed`` has made; ValueError if it is none."""
    try:
        return tuple(integer("client", int(word), 0) for word in text.split(",")) if text else ()
    except ValueError:
        raise ValueError(f"clients must be numbers with commas between them, such as '0, 2', got {text!r}") from None

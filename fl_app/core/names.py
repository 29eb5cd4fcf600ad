# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that people type: any case, with or without hyphens, and a hint when there is no such name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def canonical(kind: str, given: str, known: Sequence[str]) -> str:
    """The one of `known` that is meant. `kind` ("policy", say) stands in the error, with the nearest name."""
    spelled = {_squeeze(name): name for name in known}
    squeezed = _squeeze(str(given))
    if squeezed in spelled:
        return spelled[squeezed]
    nearest = spelled[difflib.get_close_matches(squeezed, spelled, n=1, cutoff=0.0)[0]]
    raise ValueError(f"unknown {kind} {given!r}: did you mean {nearest!r}? There are {', '.join(known)}")


def _squeeze(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())

# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the name that a user means: any case, with or without hyphens, and a hint if the name is unknown."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def canonical(kind: str, given: str, known: Sequence[str]) -> str:
    """Return the entry of `known` that `given` means.

    `kind` ("policy", say) says in the error text what the name stands for; the text also suggests the nearest name.
    """
    spelled = {_squeeze(name): name for name in known}
    squeezed = _squeeze(str(given))
    if squeezed in spelled:
        return spelled[squeezed]
    nearest = spelled[difflib.get_close_matches(squeezed, spelled, n=1, cutoff=0.0)[0]]
    raise ValueError(f"unknown {kind} {given!r}: did you mean {nearest!r}? There are {', '.join(known)}")


def _squeeze(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())

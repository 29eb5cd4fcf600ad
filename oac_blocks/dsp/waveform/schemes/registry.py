# SPDX-License-Identifier: GPL-3.0-or-later
"""Find schemes by the names that configs, messages and blocks use; a new scheme registers itself here."""

from __future__ import annotations

from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.schemes.amplitudes import Analog
from oac_blocks.dsp.waveform.schemes.base import Scheme
from oac_blocks.dsp.waveform.schemes.majority_vote import MajorityVote

_SCHEMES: dict[str, Scheme] = {}
_ALIASES = {"fsk-mv": "onebit"}


def register_scheme(scheme: Scheme) -> Scheme:
    """Register a scheme by its name and return it; raise ValueError if another scheme has this name."""
    known = _SCHEMES.get(scheme.name)
    taken = known is not None and type(known) is not type(scheme)
    require(not taken and scheme.name not in _ALIASES, "name of a scheme", repr(scheme.name), "a name that is free")
    _SCHEMES[scheme.name] = scheme
    return scheme


def scheme_named(name: str) -> Scheme:
    """Return the scheme of this name; raise ValueError if there is none."""
    scheme = _SCHEMES.get(_ALIASES.get(name, name))
    require(scheme is not None, "mode", repr(name), f"one of {', '.join(scheme_names())}")
    assert scheme is not None
    return scheme


def scheme_names() -> tuple[str, ...]:
    """Return the names of all schemes, in the order in which they were registered."""
    return tuple(_SCHEMES)


for _scheme in (MajorityVote(), Analog()):
    register_scheme(_scheme)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Find schemes by the names that configs, messages and blocks use; a new scheme registers itself here."""

from __future__ import annotations

from typing import Any

from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.schemes.base import Scheme
from oac_blocks.plugins import PluginError, Registry, import_string_of, is_import_string

# The parts are schemes, or classes of schemes that take no arguments.
SCHEMES: Registry[Any] = Registry(
    "scheme",
    "gr_oac.schemes",
    {
        "onebit": "oac_blocks.dsp.waveform.schemes.majority_vote:MajorityVote",
        "analog": "oac_blocks.dsp.waveform.schemes.amplitudes:Analog",
        "energy": "oac_blocks.dsp.waveform.schemes.energies:Energy",
    },
    aliases={"fsk-mv": "onebit"},
)
_made: dict[str, Scheme] = {}


def register_scheme(scheme: Scheme) -> Scheme:
    """Register a scheme by its name in this process and return it; ValueError if another scheme has this name."""
    SCHEMES.register(scheme.name, scheme)
    return scheme


def scheme_named(name: str) -> Scheme:
    """Return the scheme of this name or import string; raise ValueError if there is none."""
    require(isinstance(name, str), "scheme", repr(name), "a name")
    name = SCHEMES.canonical(name)
    part = SCHEMES.load(name)
    if isinstance(part, Scheme):
        return part
    if name not in _made:
        _made[name] = _instance(part, name)
    return _made[name]


def scheme_from_outside(name: str) -> Scheme:
    """Return the scheme that a message names; an import string counts only if this process has used it already.

    A message must not decide what is imported here; ValueError otherwise.
    """
    allowed = f"one of {', '.join(scheme_names())}"
    require(not is_import_string(name) or name in _made, "scheme", repr(name), allowed)
    return scheme_named(name)


def name_of_scheme(scheme: str | Scheme | type[Scheme]) -> str:
    """Return the name by which settings keep a scheme; one that no registry has is registered in this process.

    A class goes by its import string where it has one, so that other processes find it.
    """
    if isinstance(scheme, str):
        return scheme
    require(
        isinstance(scheme, Scheme) or (isinstance(scheme, type) and issubclass(scheme, Scheme)),
        "scheme",
        repr(scheme),
        "a name, a Scheme or a subclass of Scheme",
    )
    if isinstance(scheme, type):
        named = import_string_of(scheme)
        if named is not None:
            return named
        scheme = scheme()
    if scheme.name not in SCHEMES.names() or type(scheme_named(scheme.name)) is not type(scheme):
        SCHEMES.register(scheme.name, scheme, replace=True)  # a notebook's cell may define its class anew
    return scheme.name


def scheme_names() -> tuple[str, ...]:
    """Return the names of all schemes, those of gr-oac first."""
    return SCHEMES.names()


def _instance(part: Any, name: str) -> Scheme:
    """Make the scheme of a class. A scheme that an import string or an entry point names goes by that name."""
    made = part() if isinstance(part, type) and issubclass(part, Scheme) else None
    if made is None:
        raise PluginError(f"[air] scheme = {name!r}: this must be a subclass of Scheme, or a Scheme, not {part!r}")
    if made.name != name:
        made.name = name  # what other processes and machines look it up by
    return made

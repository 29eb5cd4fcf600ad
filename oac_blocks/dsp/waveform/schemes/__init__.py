# SPDX-License-Identifier: GPL-3.0-or-later
"""Define schemes: how gradient entries become subcarriers that add up over the air, and how the sum is read.

Examples
--------
>>> scheme = scheme_named("onebit")
>>> grid = scheme.encode(payload, num, rng=rng)
>>> received = scheme.detect(grid, k, num)
"""

from oac_blocks.dsp.waveform.schemes.base import PackedField, Scheme
from oac_blocks.dsp.waveform.schemes.registry import (
    name_of_scheme,
    register_scheme,
    scheme_from_outside,
    scheme_named,
    scheme_names,
)

__all__ = [
    "PackedField",
    "Scheme",
    "name_of_scheme",
    "register_scheme",
    "scheme_from_outside",
    "scheme_named",
    "scheme_names",
]

# SPDX-License-Identifier: GPL-3.0-or-later
"""One client alone: a Zadoff-Chu sequence of its own root on the active subcarriers, for a slot of its own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.sequences import zadoff_chu


def sequence_length(num: Numerology) -> int:
    """The shortest prime length that covers the active subcarriers: 193 for 192."""
    length = num.active_subcarriers + 1
    while any(length % p == 0 for p in range(2, int(length**0.5) + 1)):
        length += 1
    return length


@lru_cache(maxsize=256)
def sequence_grid(root: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """The sequence of this root, cut to the active subcarriers; read-only."""
    grid = zadoff_chu(root, sequence_length(num))[: num.active_subcarriers].astype(np.complex64)
    grid.flags.writeable = False
    return grid


def client_sequence(client: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """The OFDM symbol, prefix included, that belongs to this client alone (root ``client + 1``)."""
    client = integer("client", client, 0, num.active_subcarriers - 1)
    return ofdm.modulate(sequence_grid(client + 1, num)[None], num)

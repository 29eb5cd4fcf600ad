# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a client's own sequence: a Zadoff-Chu sequence with its own root on the active subcarriers, for its own slot."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.sequences import zadoff_chu


def sequence_length(num: Numerology) -> int:
    """Return the shortest prime length that is larger than the number of active subcarriers: 193 for 192."""
    length = num.active_subcarriers + 1
    while any(length % p == 0 for p in range(2, int(length**0.5) + 1)):
        length += 1
    return length


@lru_cache(maxsize=256)
def sequence_grid(root: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """Return the read-only sequence of this root, cut to the active subcarriers."""
    grid = zadoff_chu(root, sequence_length(num))[: num.active_subcarriers].astype(np.complex64)
    grid.flags.writeable = False
    return grid


def client_sequence(client: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """Return the OFDM symbol, prefix included, that this client alone uses (root ``client + 1``)."""
    client = integer("client", client, 0, num.active_subcarriers - 1)
    return ofdm.modulate(sequence_grid(client + 1, num)[None], num)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert votes to subcarriers by frequency-shift keying."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.bursts import BurstSource, grid_numerology
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform import fsk_mv


class fsk_mv_mapper(BurstSource):  # noqa: N801 (GNU Radio's way of naming blocks)
    """FSK-MV mapper: converts a PDU of votes to a burst of OFDM symbols.

    Message port ``votes`` takes PDUs of int8 votes -1, 0 (abstain) or +1 as a u8vector. The output is vectors of the
    active subcarriers, lowest frequency first, one per symbol. A vote puts energy 1 on one of two adjacent subcarriers,
    with a random QPSK phase. The first item of a burst carries the length tag (in symbols) and the PDU's metadata.
    """

    def __init__(
        self, active_subcarriers: int = 192, repeats: int = 1, seed: int = 0, length_tag: str = "packet_len"
    ) -> None:
        self._num = grid_numerology(active_subcarriers)
        self._rng = np.random.default_rng(integer("seed", seed, 0))
        self.set_repeats(repeats)
        BurstSource.__init__(self, "OAC FSK-MV Mapper", "votes", np.int8, self._num.active_subcarriers, length_tag)

    @property
    def repeats(self) -> int:
        """Return the number of copies of each vote in a burst."""
        return self._repeats

    def set_repeats(self, repeats: int) -> None:
        """Set the number of copies of each vote in a burst, from the next burst on."""
        self._repeats = integer("repeats", repeats, 1)

    def encode(self, data: npt.NDArray[Any]) -> npt.NDArray[np.complex64]:
        return fsk_mv.encode(data, self._num, self._rng, self._repeats)

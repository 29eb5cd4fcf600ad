# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert subcarriers to soft votes: energy for minus energy against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.bursts import BurstSink, grid_numerology
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform import fsk_mv


class fsk_mv_detector(BurstSink):  # noqa: N801 (GNU Radio's way of naming blocks)
    """FSK-MV detector: converts a burst of OFDM symbols to a PDU of soft votes.

    The input takes vectors of the active subcarriers, one per symbol; each burst begins with the length tag (in
    symbols). Message port ``soft_votes`` sends a PDU of k float32 for each burst, energy for minus energy against, so
    the sign is the majority's decision. The burst's other tags are its metadata.
    """

    def __init__(
        self, k: int = 960, active_subcarriers: int = 192, repeats: int = 1, length_tag: str = "packet_len"
    ) -> None:
        self._num = grid_numerology(active_subcarriers)
        self.set_k(k)
        self.set_repeats(repeats)
        BurstSink.__init__(self, "OAC FSK-MV Detector", "soft_votes", self._num.active_subcarriers, length_tag)

    @property
    def k(self) -> int:
        """Return the number of votes in a burst."""
        return self._k

    @property
    def repeats(self) -> int:
        """Return the number of copies of each vote in a burst."""
        return self._repeats

    def set_k(self, k: int) -> None:
        """Set the number of votes in a burst."""
        self._k = integer("k", k, 1)

    def set_repeats(self, repeats: int) -> None:
        """Set the number of copies of each vote in a burst."""
        self._repeats = integer("repeats", repeats, 1)

    def decode(self, grid: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
        return fsk_mv.detect(grid, self._k, self._num, self._repeats)

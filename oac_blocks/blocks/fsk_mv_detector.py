# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert subcarriers to soft votes: energy for minus energy against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.tone_pairs import PairDetector
from oac_blocks.dsp.waveform import fsk_mv


class fsk_mv_detector(PairDetector):  # noqa: N801 (GNU Radio's way of naming blocks)
    """FSK-MV detector: converts a burst of OFDM symbols to a PDU of soft votes.

    The input takes vectors of the active subcarriers, one per symbol; each burst begins with the length tag (in
    symbols). Message port ``soft_votes`` sends a PDU of k float32 for each burst, energy for minus energy against, so
    the sign is the majority's decision. The burst's other tags are its metadata.
    """

    def __init__(
        self, k: int = 960, active_subcarriers: int = 192, repeats: int = 1, length_tag: str = "packet_len"
    ) -> None:
        how = (k, active_subcarriers, repeats, length_tag)
        PairDetector.__init__(self, "OAC FSK-MV Detector", "soft_votes", *how)

    def decode(self, grid: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
        return fsk_mv.detect(grid, self._k, self._num, self._repeats)

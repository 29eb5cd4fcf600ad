# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert votes to subcarriers by frequency-shift keying."""

from __future__ import annotations

from oac_blocks.blocks.support.tone_pairs import PairMapper
from oac_blocks.dsp.waveform.schemes import scheme_named


class fsk_mv_mapper(PairMapper):  # noqa: N801 (GNU Radio's way of naming blocks)
    """FSK-MV mapper: converts a PDU of votes to a burst of OFDM symbols.

    Message port ``votes`` takes PDUs of int8 votes -1, 0 (abstain) or +1 as a u8vector. The output is vectors of the
    active subcarriers, lowest frequency first, one per symbol. A vote puts energy 1 on one of two adjacent subcarriers,
    with a random QPSK phase. The first item of a burst carries the length tag (in symbols) and the PDU's metadata.
    """

    def __init__(
        self, active_subcarriers: int = 192, repeats: int = 1, seed: int = 0, length_tag: str = "packet_len"
    ) -> None:
        how = (active_subcarriers, repeats, seed, length_tag)
        PairMapper.__init__(self, "OAC FSK-MV Mapper", "votes", scheme_named("onebit"), *how)

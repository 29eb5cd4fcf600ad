# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert gradient entries to energies on pairs of subcarriers."""

from __future__ import annotations

from oac_blocks.blocks.support.tone_pairs import PairMapper
from oac_blocks.dsp.checks import real
from oac_blocks.dsp.waveform.schemes import scheme_named


class energy_mapper(PairMapper):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Energy mapper: converts a PDU of float32 entries to a burst of OFDM symbols, a pair of subcarriers per entry.

    Message port ``entries`` takes PDUs of float32. An entry g puts the energy ``scale * |g|``, at most 32, on the first
    of two adjacent subcarriers if it is positive and on the second if it is negative, with a random QPSK phase. All
    clients must use the same scale. The output is vectors of the active subcarriers, lowest frequency first, one per
    symbol. The first item of a burst carries the length tag (in symbols) and the PDU's metadata.
    """

    def __init__(
        self,
        active_subcarriers: int = 192,
        scale: float = 1.0,
        repeats: int = 1,
        seed: int = 0,
        length_tag: str = "packet_len",
    ) -> None:
        self.set_scale(scale)
        how = (active_subcarriers, repeats, seed, length_tag)
        PairMapper.__init__(self, "OAC Energy Mapper", "entries", scheme_named("energy"), *how)

    @property
    def scale(self) -> float:
        """Return the energy of an entry of 1."""
        return self._scale

    def set_scale(self, scale: float) -> None:
        """Set the energy of an entry of 1, from the next burst on."""
        self._scale = real("scale", scale, 0.0, open_low=True)

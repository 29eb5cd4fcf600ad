# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert subcarrier amplitudes to the mean of the clients' gradient entries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.bursts import BurstSink, grid_numerology
from oac_blocks.dsp.checks import integer, real
from oac_blocks.dsp.waveform import analog


class analog_demapper(BurstSink):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Analog demapper: converts a burst of OFDM symbols to a PDU of float32 entries, the mean over the clients.

    The input takes vectors of the active subcarriers, one per symbol; each burst begins with the length tag (in
    symbols). Message port ``entries`` sends a PDU of k float32 for each burst, with the burst's other tags as metadata.
    ``scale`` is the scale of the mappers. ``mean_gain`` is the mean factor by which the channel changes an amplitude.
    """

    def __init__(
        self,
        k: int = 3840,
        active_subcarriers: int = 192,
        scale: float = 1.0,
        n_clients: int = 1,
        mean_gain: float = 1.0,
        length_tag: str = "packet_len",
    ) -> None:
        self._num = grid_numerology(active_subcarriers)
        self.set_k(k)
        self.set_scale(scale)
        self.set_n_clients(n_clients)
        self.set_mean_gain(mean_gain)
        BurstSink.__init__(self, "OAC Analog Demapper", "entries", self._num.active_subcarriers, length_tag)

    def set_k(self, k: int) -> None:
        """Set the number of entries in a burst."""
        self._k = integer("k", k, 1)

    def set_scale(self, scale: float) -> None:
        """Set the amplitude of an entry of 1, the same as in the mappers."""
        self._scale = real("scale", scale, 0.0, open_low=True)

    def set_n_clients(self, n_clients: int) -> None:
        """Set the number of clients that transmit at the same time."""
        self._n_clients = integer("n_clients", n_clients, 1)

    def set_mean_gain(self, mean_gain: float) -> None:
        """Set the mean factor by which the channel changes an amplitude."""
        self._mean_gain = real("mean_gain", mean_gain, 0.0, open_low=True)

    def decode(self, grid: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
        return analog.decode(grid, self._k, self._num, self._scale, self._n_clients, self._mean_gain)

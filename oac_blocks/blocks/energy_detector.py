# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert energies on pairs of subcarriers to the mean of the clients' gradient entries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.tone_pairs import PairDetector
from oac_blocks.dsp.checks import integer, real
from oac_blocks.dsp.waveform.schemes import scheme_named


class energy_detector(PairDetector):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Energy detector: converts a burst of OFDM symbols to a PDU of float32 entries, the mean over the clients.

    The input takes vectors of the active subcarriers, one per symbol; each burst begins with the length tag (in
    symbols). Message port ``entries`` sends a PDU of k float32 for each burst, with the burst's other tags as metadata:
    the difference of the two energies of each entry, the mean over its copies, divided by ``scale`` and ``n_clients``.
    It estimates the mean entry without bias if the clients' channels have unit power in the mean. ``scale`` is the
    scale of the mappers.
    """

    def __init__(
        self,
        k: int = 960,
        active_subcarriers: int = 192,
        scale: float = 1.0,
        n_clients: int = 1,
        repeats: int = 1,
        length_tag: str = "packet_len",
    ) -> None:
        self._scheme = scheme_named("energy")
        self.set_scale(scale)
        self.set_n_clients(n_clients)
        PairDetector.__init__(self, "OAC Energy Detector", "entries", k, active_subcarriers, repeats, length_tag)

    def set_scale(self, scale: float) -> None:
        """Set the energy of an entry of 1, the same as in the mappers."""
        self._scale = real("scale", scale, 0.0, open_low=True)

    def set_n_clients(self, n_clients: int) -> None:
        """Set the number of clients that transmit at the same time."""
        self._n_clients = integer("n_clients", n_clients, 1)

    def decode(self, grid: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
        how = {"repeats": self._repeats, "scale": self._scale, "clients": self._n_clients}
        return self._scheme.detect(grid, self._k, self._num, **how)  # type: ignore[arg-type]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Generate random gradient entries to test a link, periodically or on request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.paced_source import PacedSource
from oac_blocks.dsp.checks import integer, real


class _Gaussian:
    def __init__(self, seed: int) -> None:
        self.k, self.rms = 1, 1.0
        self._rng = np.random.default_rng(seed)

    def __call__(self) -> npt.NDArray[np.float32]:
        return self._rng.standard_normal(self.k, np.float32) * np.float32(self.rms)


class entry_source(PacedSource):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Entry source: sends PDUs of k Gaussian entries with the given RMS value and consecutive ``round`` numbers.

    Message port ``entries`` sends PDUs of float32: one every ``period_ms`` (0: none), and one for each message on port
    ``next``, whatever its content.
    """

    def __init__(self, k: int = 3840, period_ms: int = 50, rms: float = 1.0, seed: int = 0) -> None:
        self._gaussian = _Gaussian(integer("seed", seed, 0))
        self.set_k(k)
        self.set_rms(rms)
        PacedSource.__init__(self, "OAC Entry Source", "entries", self._gaussian, period_ms)

    def set_k(self, k: int) -> None:
        """Set the number of entries in a PDU."""
        self._gaussian.k = integer("k", k, 1)

    def set_rms(self, rms: float) -> None:
        """Set the root mean square of the entries."""
        self._gaussian.rms = real("rms", rms, 0.0, 1e18, open_low=True)

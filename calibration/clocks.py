# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert between the server's sample count and those of the clients' crystals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.channel.crystal import Crystal, CrystalSettings
from oac_blocks.dsp.checks import real

Floats = npt.NDArray[np.float64]


class ClientClocks:
    """The sample counts of N clients at the server's times. All counts begin at 0.

    Client i has the crystal of ``settings[i]`` and of the i-th child of ``seed``.
    """

    def __init__(
        self, settings: Sequence[CrystalSettings], sample_rate_hz: float, seed: np.random.SeedSequence
    ) -> None:
        self._rate_hz = real("sample_rate_hz", sample_rate_hz, 0.0, open_low=True)
        children = seed.spawn(len(settings))
        self._crystals = [Crystal(one, child) for one, child in zip(settings, children, strict=True)]

    def count_at(self, time: Floats) -> Floats:
        """Return the count of each clock at the server's times (N,)."""
        leads = [crystal.lead_at(at) for crystal, at in zip(self._crystals, self._seconds(time), strict=True)]
        return time + self._rate_hz * np.array(leads)

    def time_of(self, count: Floats) -> Floats:
        """Return the server's times at which the clocks reach these counts (N,)."""
        at = [crystal.true_at(own) for crystal, own in zip(self._crystals, self._seconds(count), strict=True)]
        return self._rate_hz * np.array(at)

    def rates_ppm(self, time: float) -> Floats:
        """Return the rate errors (N,) in ppm at one time of the server."""
        return np.array([crystal.rate_ppm(time / self._rate_hz) for crystal in self._crystals])

    def step(self, client: int, ppm: float, time: float) -> None:
        """Change the rate of one clock by ``ppm``, from a time of the server on."""
        self._crystals[client].add_ppm(ppm, time / self._rate_hz)

    def _seconds(self, samples: Floats) -> list[float]:
        seconds: list[float] = (samples / self._rate_hz).tolist()
        return seconds

# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks that nobody has tuned: a rate error in ppm, which walks at random and may swing with the temperature.

All clocks of a simulation together, on a grid of the server's time that is fine against a turnaround.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import generator, integer, real, require

Floats = npt.NDArray[np.float64]
STEPS = 16  # of the walk, in a piece of time


@dataclass(frozen=True)
class ClockPiece:
    """The counts (N, STEPS + 1) of all clocks at equally spaced server times; straight lines between."""

    begin: float
    step: float
    counts: Floats
    rates: Floats  # (N, STEPS), ppm

    def count_at(self, time: Floats) -> Floats:
        """What each clock has counted at the server's times (N,); beyond the piece the rate at its edge holds."""
        place = (time - self.begin) / self.step
        index = np.clip(np.floor(place), 0, STEPS - 1).astype(np.int64)
        rows = np.arange(len(index))
        return self.counts[rows, index] + (place - index) * self.step * (1 + 1e-6 * self.rates[rows, index])

    def time_of(self, count: Floats) -> Floats:
        """When each clock reaches these counts (N,)."""
        time = self.begin + count - self.counts[:, 0]
        for _ in range(4):  # each time the error shrinks by the rate, 1e-3 at most
            time = time + count - self.count_at(time)
        return time


class Clocks:
    """Counts and rates of N clocks, piece by piece. Those of one seed are the same whatever else happens."""

    def __init__(
        self,
        ppm: npt.ArrayLike,
        walk_ppm: float,
        sample_rate_hz: float,
        rng: np.random.Generator,
        wobble_ppm: float = 0.0,
        wobble_seconds: float = 20.0,
    ) -> None:
        self.ppm = np.array(ppm, np.float64)
        require(self.ppm.ndim == 1 and self.ppm.size > 0, "ppm", f"shape {self.ppm.shape}", "one rate for each clock")
        largest = float(np.max(np.abs(self.ppm)))
        require(largest <= 1000.0, "ppm", largest, "within 1,000 ppm")
        self._rng = generator("rng", rng)
        self._walk_ppm = real("walk_ppm", walk_ppm, 0.0)  # standard deviation of the rate after one second
        self._sample_rate_hz = real("sample_rate_hz", sample_rate_hz, 0.0, open_low=True)
        self._wobble_ppm = real("wobble_ppm", wobble_ppm, 0.0)
        self._wobble_seconds = real("wobble_seconds", wobble_seconds, 0.0, open_low=True)
        self._wobble_phase = 2 * np.pi * self._rng.random(len(self.ppm))
        self._time = 0.0
        self._counts = np.zeros(len(self.ppm))

    def advance(self, samples: int) -> ClockPiece:
        """The next ``samples`` of the server's time."""
        step = integer("samples", samples, 1) / STEPS
        sigma = self._walk_ppm * np.sqrt(step / self._sample_rate_hz)
        walked = self.ppm[:, None] + np.cumsum(sigma * self._rng.standard_normal((len(self.ppm), STEPS)), axis=1)
        seconds = (self._time + step * np.arange(STEPS)) / self._sample_rate_hz
        swing = np.sin(2 * np.pi * seconds / self._wobble_seconds + self._wobble_phase[:, None])
        rates = walked + self._wobble_ppm * swing
        counts = np.cumsum(np.column_stack((self._counts, step * (1 + 1e-6 * rates))), axis=1)
        piece = ClockPiece(self._time, step, counts, rates)
        self.ppm, self._counts, self._time = walked[:, -1].copy(), counts[:, -1], self._time + samples
        return piece

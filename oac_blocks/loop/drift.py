# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate the rate error of a client's clock from the times at which client and server detected the triggers.

Both count their own samples. The difference of the two counts grows with the client's rate error. A Kalman filter with
the state (difference, rate) follows it; the rate is modelled as a random walk.
"""

from __future__ import annotations

import math

_FIRST_RATE = 200e-6  # standard deviation of a rate before the first measurement
_LEAST_GATE_SAMPLES = 2.0
_GATE_SIGMAS = 8.0


class ClockDrift:
    """Kalman filter for the rate error of one client's clock."""

    def __init__(self, sample_rate_hz: float, walk_ppm: float) -> None:
        # Variance of the rate's random walk per server sample.
        self._walk = (1e-6 * max(walk_ppm, 1e-3)) ** 2 / sample_rate_hz
        self.restart()

    def restart(self) -> None:
        """Forget all triggers and the rate."""
        self._server = math.nan
        self._difference, self._rate = math.nan, 0.0
        self._p, self._cross, self._q = 0.0, 0.0, _FIRST_RATE**2
        self._rounds = 0
        self._strayed = self._rate_is_doubtful = False

    @property
    def ppm(self) -> float:
        """Return the rate error in ppm; positive is fast, NaN before two triggers were detected."""
        return 1e6 * self._rate if self._rounds >= 2 else math.nan

    @property
    def sigma_ppm(self) -> float:
        """Return the standard deviation of the rate error in ppm."""
        return 1e6 * math.sqrt(self._q) if self._rounds >= 2 else math.nan

    def heard(self, client_sample: float, server_sample: float, sigma_samples: float) -> float:
        """Take one trigger and return its deviation from the prediction in samples (NaN if there was no prediction).

        A trigger far from the prediction is left out, and two such triggers in a row restart the filter, because the
        stream has jumped. If the rate does not fit afterwards either, it is forgotten too.
        """
        if not (math.isfinite(client_sample) and math.isfinite(server_sample)):
            return math.nan
        elapsed = server_sample - self._server
        difference = client_sample - server_sample
        if not elapsed > 0:  # the first trigger, or the server's count began again
            self._begin(server_sample, difference, sigma_samples)
            return math.nan
        p = self._p + 2 * elapsed * self._cross + elapsed**2 * self._q + self._walk * elapsed**3 / 3
        cross = self._cross + elapsed * self._q + self._walk * elapsed**2 / 2
        q = self._q + self._walk * elapsed
        error = difference - self._difference - elapsed * self._rate
        total = p + sigma_samples**2
        if abs(error) > max(_LEAST_GATE_SAMPLES, _GATE_SIGMAS * math.sqrt(total)):
            if self._strayed:
                # A jump of the stream does not change the rate. If the deviation remains, the rate itself has changed.
                rate, q, rounds, helpless = self._rate, self._q, self._rounds, self._rate_is_doubtful
                self._begin(server_sample, difference, sigma_samples)
                if not helpless:
                    self._rate, self._q, self._rounds = rate, q, rounds
                    self._rate_is_doubtful = True
            else:
                self._strayed = True
            return error
        gain, gain_rate = p / total, cross / total
        self._server = server_sample
        self._difference += elapsed * self._rate + gain * error
        self._rate += gain_rate * error
        self._p, self._cross, self._q = (1 - gain) * p, (1 - gain) * cross, max(q - gain_rate * cross, 0.0)
        self._rounds += 1
        self._strayed = self._rate_is_doubtful = False
        return error

    def _begin(self, server_sample: float, difference: float, sigma_samples: float) -> None:
        self.restart()
        self._server, self._difference = server_sample, difference
        self._p = sigma_samples**2
        self._rounds = 1

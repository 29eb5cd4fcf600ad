# SPDX-License-Identifier: GPL-3.0-or-later
"""Give the arrival offset of each client in each round: as assumed, as the closed loop leaves it, or uncorrected.

With the loop, virtual radios with these clocks are triggered, measured and corrected in each round by the real
estimators. Rounds are always played from the first one on, so that round t is the same whatever was asked before, in a
resumed run too. A round of calibration alone does not count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from calibration.simulation import loop_for, play
from calibration.virtual import VirtualRadios, VirtualSettings
from fl_app.air.settings import TURNAROUND_SECONDS, AirSettings
from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.shared_slot import max_clients

Floats = npt.NDArray[np.float64]

_MOST_ROUNDS = 10_000_000
_MOST_ACQUISITION_ROUNDS = 1000  # rounds in a row without a payload after which calibration has failed
_QUIETEST_DB, _LOUDEST_DB = -10.0, 40.0  # range of the SNR for which the virtual radios are made
_SNR_WITHOUT_NOISE_DB = 40.0  # SNR of the virtual radios if the settings have no noise


class SimulatedArrivals:
    """Compute offsets in samples: positive for a late client, NaN for one that is silent as it is not calibrated."""

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self._n_clients = n_clients
        self._loop = None if settings.calibration == "assumed" else self._play(settings, n_clients, seed)
        self._known: list[Floats] = []

    def offsets(self, t: int) -> Floats:
        """Return the offsets (n_clients,) in round t; ``path`` adds the assumed timing error to them."""
        if self._loop is None:
            return np.zeros(self._n_clients)
        while len(self._known) <= t:
            self._known.append(next(self._loop))
        return self._known[t]

    @staticmethod
    def _play(settings: AirSettings, n_clients: int, seed: int) -> Iterator[Floats]:
        num = settings.numerology()
        most = max_clients(num)
        require(n_clients <= most, "clients", n_clients, f"at most {most} for calibration = {settings.calibration!r}")
        snr_db = _SNR_WITHOUT_NOISE_DB if settings.snr_db is None else settings.snr_db
        turnaround = round(TURNAROUND_SECONDS * num.sample_rate_hz)
        virtual = VirtualSettings(
            RoundLayout(num, n_clients, 1, settings.groups, turnaround),
            ppm=settings.clock_ppm,
            walk_ppm=settings.clock_walk_ppm,
            carrier_hz=settings.carrier_hz,
            snr_db=min(max(snr_db, _QUIETEST_DB), _LOUDEST_DB),
            seed=seed,
        )
        loop = loop_for(virtual)
        loop.enabled = settings.calibration == "loop"
        without_payload = 0
        for played in play(loop, VirtualRadios(virtual), _MOST_ROUNDS):
            without_payload += 1
            if played.plan.kind == "payload":
                without_payload = 0
                yield played.result.residual_samples
            require(
                without_payload < _MOST_ACQUISITION_ROUNDS,
                "air",
                f"{settings.clock_ppm:g} ppm, {snr_db:g} dB",
                f"such that radios can be calibrated (tried for {_MOST_ACQUISITION_ROUNDS} rounds)",
            )

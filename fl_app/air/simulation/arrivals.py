# SPDX-License-Identifier: GPL-3.0-or-later
"""Give the arrival offset of each client in each round: as assumed, as the closed loop leaves it, or uncorrected.

With the loop, virtual radios are triggered, measured and corrected in each round by the real estimators. They have the
clocks and the multipath of the bursts that carry the payload. Rounds are always played from the first one on, so that
round t is the same whatever was asked before, in a resumed run too. A round of calibration alone does not count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from calibration.simulation import Played, loop_for, play
from calibration.virtual import VirtualRadios, VirtualSettings
from fl_app.air.settings import TURNAROUND_SECONDS, AirSettings
from fl_app.air.simulation.clocks import ROUND_SECONDS, RoundClocks
from fl_app.air.simulation.path import draw_echoes
from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.shared_slot import max_clients
from oac_blocks.loop.states import LoopSettings, Plan

Floats = npt.NDArray[np.float64]

_MOST_ROUNDS = 10_000_000
_MOST_ACQUISITION_ROUNDS = 1000  # rounds in a row without a payload after which calibration has failed
_QUIETEST_DB, _LOUDEST_DB = -10.0, 40.0  # range of the SNR for which the virtual radios are made
_SNR_WITHOUT_NOISE_DB = 40.0  # SNR of the virtual radios if the settings have no noise


class RoundWorld:
    """Give the virtual radios the clocks of each round and the multipath of its first burst.

    A round of calibration alone is not a round of the air. It has the clocks of the coming round and a multipath of its
    own.
    """

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self._settings, self._clients, self._seed = settings, range(n_clients), seed
        self._clocks = RoundClocks(settings, n_clients, seed)
        self._round = 0  # round of the air that comes next
        self._tries = 0  # rounds of calibration alone

    def rates_ppm(self, plan: Plan) -> Floats:  # noqa: ARG002 (clocks do not depend on what is sent)
        return self._clocks.ppm(self._round)

    def taps(self, plan: Plan) -> npt.NDArray[np.complex128]:
        if plan.kind == "payload":
            places, purpose = [(self._round, 0, client) for client in self._clients], "air echoes"
            self._round += 1
        else:
            places, purpose = [(self._tries, 0, client) for client in self._clients], "air calibration echoes"
            self._tries += 1
        drawn = [draw_echoes(self._settings, self._seed, place, purpose) for place in places]
        return np.array(drawn, np.complex128)


class SimulatedArrivals:
    """Compute offsets in samples: positive for a late client, NaN for one that is silent as it is not calibrated."""

    def __init__(self, settings: AirSettings, n_clients: int, seed: int) -> None:
        self._n_clients = n_clients
        self._loop = None if settings.calibration == "assumed" else payload_rounds(settings, n_clients, seed)
        self._known: list[Floats] = []

    def offsets(self, t: int) -> Floats:
        """Return the offsets (n_clients,) of the first path in round t; ``path`` adds the assumed timing error."""
        if self._loop is None:
            return np.zeros(self._n_clients)
        while len(self._known) <= t:
            self._known.append(next(self._loop).result.residual_samples)
        return self._known[t]


def payload_rounds(settings: AirSettings, n_clients: int, seed: int) -> Iterator[Played]:
    """Play the rounds of the loop, and yield those that carry payload: round 0 of the air, round 1 and so on."""
    num = settings.numerology()
    most = max_clients(num)
    require(n_clients <= most, "clients", n_clients, f"at most {most} for calibration = {settings.calibration!r}")
    snr_db = _SNR_WITHOUT_NOISE_DB if settings.snr_db is None else settings.snr_db
    layout = RoundLayout(num, n_clients, 1, settings.groups, round(TURNAROUND_SECONDS * num.sample_rate_hz))
    virtual = VirtualSettings(
        layout,
        carrier_hz=settings.carrier_hz,
        snr_db=min(max(snr_db, _QUIETEST_DB), _LOUDEST_DB),
        seed=seed,
    )
    # At a low rate a round in which each client has a slot takes more than a second.
    interval = max(round(ROUND_SECONDS * num.sample_rate_hz), virtual.interval)
    virtual = dataclasses.replace(virtual, interval_samples=interval)
    # The bursts have the mean power 1 and no power control.
    loop = loop_for(virtual, LoopSettings(power_control=False))
    loop.enabled = settings.calibration == "loop"
    without_payload = 0
    for played in play(loop, VirtualRadios(virtual, world=RoundWorld(settings, n_clients, seed)), _MOST_ROUNDS):
        without_payload += 1
        if played.plan.kind == "payload":
            without_payload = 0
            yield played
        require(
            without_payload < _MOST_ACQUISITION_ROUNDS,
            "air",
            f"{settings.clock_ppm:g} ppm, {snr_db:g} dB",
            f"such that radios can be calibrated (tried for {_MOST_ACQUISITION_ROUNDS} rounds)",
        )

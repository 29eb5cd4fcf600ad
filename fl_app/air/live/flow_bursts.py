# SPDX-License-Identifier: GPL-3.0-or-later
"""A payload through a flowgraph or through radios: burst by burst, since a burst of theirs holds only so many votes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Uplink
from fl_app.air.bursts import layout
from fl_app.air.live.loopback_settings import burst_votes
from fl_app.air.settings import AirSettings

# Takes the first entry of a burst and the one behind its last; gives their soft votes, and the SNR in dB or NaN.
SendBurst = Callable[[int, int], tuple[npt.NDArray[np.float32], float]]


def uplink_in_bursts(k: int, settings: AirSettings, send: SendBurst) -> Uplink:
    """k votes, one burst after the other, as equal as can be."""
    bursts = -(-k // burst_votes(settings))
    received = np.empty(k, np.float32)
    symbols, powers = 0, []
    for first, stop in pairwise(k * i // bursts for i in range(bursts + 1)):
        received[first:stop], snr_db = send(first, stop)
        symbols += layout(stop - first, settings).symbols
        if math.isfinite(snr_db):  # a burst in which the noise could not be told has none
            powers.append(10 ** (snr_db / 10))
    # The mean over the copies, so that a soft vote means the same for any number of them.
    received /= np.float32(settings.repeats)
    air_seconds = symbols * settings.numerology().symbol_seconds
    return Uplink(received, symbols, air_seconds, float(10 * np.log10(np.mean(powers))) if powers else None)


def ballots_of_all(votes: npt.NDArray[np.int8], clients: npt.NDArray[np.int64], n_clients: int) -> npt.NDArray[np.int8]:
    """(n_clients, k): who does not take part abstains; the others' votes stand where they stood."""
    ballots = np.zeros((n_clients, votes.shape[1]), np.int8)
    ballots[clients] = votes
    return ballots

# SPDX-License-Identifier: GPL-3.0-or-later
"""A payload through a flowgraph or through radios: burst by burst, since a burst of theirs holds only so many votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Uplink
from fl_app.air.bursts import layout
from fl_app.air.live.loopback_settings import burst_votes
from fl_app.air.settings import AirSettings

MAX_CLIENTS = 63  # clients at most: if 64 are equally strong and in phase, the sync symbols tell none of them apart


@dataclass(frozen=True, eq=False)
class CarriedBurst:
    """The result of one burst at the server."""

    soft_votes: npt.NDArray[np.float32]
    snr_db: float  # NaN if the noise could not be measured
    heard: Collection[int]  # numbers of the clients whose votes are in it


# Takes the first entry of a burst and the one behind its last, and transmits the entries between them.
SendBurst = Callable[[int, int], CarriedBurst]


def uplink_in_bursts(
    k: int, clients: npt.NDArray[np.int64], settings: AirSettings, send: SendBurst, scale: float = 1.0
) -> Uplink:
    """Send k votes of these clients, one burst after the other, as equal as can be.

    ``scale`` is the common scale that the clients' entries were multiplied by.

    A client is heard if its votes are in every burst.
    """
    bursts = -(-k // burst_votes(settings))
    received = np.empty(k, np.float32)
    heard_in: list[npt.NDArray[np.bool_]] = []  # for each burst, which of the clients were heard
    symbols, powers = 0, []
    edges = list(pairwise(k * i // bursts for i in range(bursts + 1)))
    for first, stop in edges:
        burst = send(first, stop)
        heard_in.append(np.isin(clients, list(burst.heard)))
        # The mean over the copies, so that a soft vote means the same for any number of them.
        soft_votes = burst.soft_votes / np.float32(settings.repeats)
        received[first:stop] = settings.scheme.received_of(soft_votes, scale, int(np.count_nonzero(heard_in[-1])))
        symbols += layout(stop - first, settings).symbols
        if math.isfinite(burst.snr_db):
            powers.append(10 ** (burst.snr_db / 10))
    air_seconds = symbols * settings.numerology().symbol_seconds
    snr_db = float(10 * np.log10(np.mean(powers))) if powers else None
    heard = np.logical_and.reduce(heard_in)
    of_heard = np.concatenate(
        [np.full(stop - first, np.array_equal(one, heard)) for (first, stop), one in zip(edges, heard_in, strict=True)]
    )
    return Uplink(received, clients[heard], symbols, air_seconds, snr_db, of_heard=of_heard)


def ballots_of_all(votes: npt.NDArray[Any], clients: npt.NDArray[np.int64], n_clients: int) -> npt.NDArray[Any]:
    """Return the votes of all clients, (n_clients, k): those that do not take part abstain."""
    ballots = np.zeros((n_clients, votes.shape[1]), votes.dtype)
    ballots[clients] = votes
    return ballots

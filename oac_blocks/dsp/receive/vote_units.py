# SPDX-License-Identifier: GPL-3.0-or-later
"""Soft votes in one unit: the mean energy of a subcarrier of those clients whose votes were heard.

In this unit the votes of N clients that agree add up to a soft vote of N in the mean, on every air: whatever radios
transmit with, and whatever the receiver's gain is. The unit is seen in the sync symbols, in which every client that
transmits sends all subcarriers: their mean energy less the noise is that of all clients together, echoes included. It
is shared out in proportion to the power that was measured of each client. A silent client that noise was taken for is
weak, and so it has a small share.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.receive.server_stream import HeardRound


def voters_heard(heard: HeardRound, voting: Collection[int] | None = None) -> tuple[int, ...]:
    """Return the clients that the server has heard in a round, of those that voted.

    Parameters
    ----------
    heard : HeardRound
        The round.
    voting : collection of int, optional
        Clients that had votes to send. None if that is not known: all that were heard count.
    """
    clients = np.flatnonzero(np.isfinite(heard.offset_samples)).tolist()
    return tuple(client for client in clients if voting is None or client in voting)


def voter_energy(heard: HeardRound, voting: Collection[int] | None = None) -> float:
    """Return the mean energy of a subcarrier of the voters that were heard; 1 if there is none."""
    voters = voters_heard(heard, voting)
    powers = 10 ** (heard.power_db / 10)
    together = np.nansum(powers)
    if not voters or not together > 0:
        return 1.0
    total = heard.sync_energy if heard.sync_energy > 0 else together
    return float(total * np.mean(powers[list(voters)]) / together)


def energies_per_voter(heard: HeardRound, voting: Collection[int] | None = None) -> npt.NDArray[np.float32]:
    """Return the energies for and against each vote, (2, votes), in units of ``voter_energy``.

    Soft votes are the first row less the second one.

    Raises
    ------
    ValueError
        If the round has no votes.
    """
    if heard.energies is None:
        raise ValueError(f"a round must carry votes, got round {heard.round} of kind {heard.kind!r} without any")
    return heard.energies / np.float32(voter_energy(heard, voting))

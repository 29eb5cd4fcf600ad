# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale soft votes to one unit: the mean energy of a subcarrier of the detected voters.

In this unit the votes of N clients that agree add up to a mean soft vote of N on every air, independent of transmit
powers and receiver gain. The unit is measured in the sync symbols, in which every transmitting client sends all
subcarriers: their mean energy minus the noise is the energy of all clients together, multipath included. It is divided
among the clients in proportion to their measured powers. A silent client that was detected by mistake in noise is weak
and therefore has a small share.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.receive.server_stream import HeardRound


def voters_heard(heard: HeardRound, voting: Collection[int] | None = None) -> tuple[int, ...]:
    """Return the voters that the server has detected in a round.

    Parameters
    ----------
    heard : HeardRound
        The round.
    voting : collection of int, optional
        Clients that had votes to send. None means that they are not known: all detected clients count.
    """
    clients = np.flatnonzero(np.isfinite(heard.offset_samples)).tolist()
    return tuple(client for client in clients if voting is None or client in voting)


def voter_energy(heard: HeardRound, voting: Collection[int] | None = None) -> float:
    """Return the mean energy of a subcarrier of the detected voters; 1 if there are none."""
    voters = voters_heard(heard, voting)
    powers = 10 ** (heard.power_db / 10)
    together = np.nansum(powers)
    if not voters or not together > 0:
        return 1.0
    total = heard.sync_energy if heard.sync_energy > 0 else together
    return float(total * np.mean(powers[list(voters)]) / together)


def energies_per_voter(heard: HeardRound, voting: Collection[int] | None = None) -> npt.NDArray[np.float32]:
    """Return the energies for and against each vote, (2, votes), in units of ``voter_energy``.

    A soft vote is the first row minus the second row.

    Raises
    ------
    ValueError
        If the round has no votes.
    """
    if heard.energies is None:
        raise ValueError(f"a round must carry votes, got round {heard.round} of kind {heard.kind!r} without any")
    return heard.energies / np.float32(voter_energy(heard, voting))

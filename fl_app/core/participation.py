# SPDX-License-Identifier: GPL-3.0-or-later
"""Say which clients take part in a round, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fl_app.core.streams import stream
from oac_blocks.dsp.checks import integer, real


def participant_count(n_clients: int, fraction: float) -> int:
    """Return how many clients take part in a round: the nearest whole number to the share, and at least one."""
    integer("n_clients", n_clients, 1)
    return max(1, round(real("fraction", fraction, 0.0, 1.0, open_low=True) * n_clients))


def participants(seed: int, t: int, n_clients: int, fraction: float = 1.0) -> NDArray[np.int64]:
    """Return the clients of round t: a random share of all, in ascending order.

    Every set of that size has the same probability. The result depends on the arguments alone, so that the server, a
    resumed run and every client know it without a message. With a fraction of 1 nothing is drawn.

    Parameters
    ----------
    seed
        Seed of the run.
    t
        The round.
    n_clients
        Clients of the run, N.
    fraction
        Share of the clients, above 0 and at most 1; `participant_count` says how many these are.
    """
    count = participant_count(n_clients, fraction)
    if count == n_clients:
        return np.arange(n_clients)
    rng = stream(seed, "participants", integer("t", t, 0))
    return np.sort(rng.choice(n_clients, count, replace=False, shuffle=False))


def size_weights(sizes: Sequence[int]) -> NDArray[np.float64]:
    """Return the factor of each client's gradient that weights the clients by their number of samples.

    The air delivers the mean over the N clients that were heard. With the factors n_c N / sum(n), whose mean is 1, it
    delivers the mean over all samples, sum(n_c g_c) / sum(n), as FedAvg has it. If only some clients take part, each
    with the same probability, it does so on average over the rounds.

    Amplitudes carry such factors; the votes of a majority vote have no magnitude, so that a factor changes nothing.
    """
    counts = np.array([integer("sizes", size, 1) for size in sizes], np.int64)
    integer("number of sizes", counts.size, 1)
    return counts * counts.size / counts.sum()

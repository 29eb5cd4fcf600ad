# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how often the air decided against the clients' majority, compute the expected rate, and decide ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.bounds import mv_error_probability
from oac_blocks.dsp.checks import require

TIE_VOTES = 0.5  # magnitude of the soft vote of a tie, in votes: below the least majority, which is one vote


def vote_error_rate(votes: npt.ArrayLike, received: npt.ArrayLike) -> tuple[int, int]:
    """Count the soft votes ``received`` (k,) whose sign is not that of the majority of ``votes`` (N, k).

    Entries without a majority (ties, or all clients abstained) are not compared. A received zero is an error.

    Returns
    -------
    errors : int
        Number of compared entries with the wrong sign.
    compared : int
        Number of entries with a majority.
    """
    ballots, soft = _ballots(votes), np.asarray(received)
    require(soft.shape == ballots.shape[1:], "received", f"shape {soft.shape}", f"of shape {ballots.shape[1:]}")
    majority = np.sign(ballots.sum(axis=0, dtype=np.int32))
    compared = majority != 0
    errors = np.count_nonzero((np.sign(soft) != majority) & compared)
    return int(errors), int(np.count_nonzero(compared))


def expected_vote_error_rate(votes: npt.ArrayLike, snr: float, repeats: int = 1) -> float:
    """Return the mean error probability in independent Rayleigh fading over the entries with a majority.

    ``snr`` is linear: the energy of one client's subcarrier over the noise variance of a subcarrier. The result is NaN
    if no entry has a majority.
    """
    ballots = _ballots(votes)
    n_clients = len(ballots)
    plus = np.count_nonzero(ballots > 0, axis=0)
    minus = np.count_nonzero(ballots < 0, axis=0)
    # There are few outcomes and many entries, so compute each outcome once.
    counts = np.bincount(plus * (n_clients + 1) + minus)
    outcome = np.flatnonzero(counts)
    k_plus, k_minus = np.divmod(outcome, n_clients + 1)
    decided = k_plus != k_minus
    if not decided.any():
        return float("nan")
    probability = mv_error_probability(k_plus[decided], k_minus[decided], snr, repeats)
    return float(np.average(probability, weights=counts[outcome[decided]]))


def decide_ties(
    received: npt.NDArray[np.float32], votes: npt.NDArray[Any], coins: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Return the exact sums ``received`` (k,) of ``votes`` (N, k) with a coin's decision for each tie.

    Where as many clients vote for as against, the energies on the air decide by chance, and so does an air without
    energies: the soft vote of a tie is +1/2 or -1/2. It has a sign, but a smaller magnitude than any majority. An entry
    on which all clients abstain stays 0.
    """
    ties = (received == 0) & np.any(votes, axis=0)
    sides = np.where(coins.random(len(received)) < 0.5, np.float32(-TIE_VOTES), np.float32(TIE_VOTES))
    return np.where(ties, sides, received)


def _ballots(votes: npt.ArrayLike) -> npt.NDArray[np.int8]:
    ballots = np.asarray(votes)
    require(ballots.dtype == np.int8, "votes", ballots.dtype, "an int8 array of -1, 0 and +1")
    fits = ballots.ndim == 2 and ballots.size > 0
    require(fits, "votes", f"shape {ballots.shape}", "of shape (N, k), N >= 1, k >= 1")
    return ballots

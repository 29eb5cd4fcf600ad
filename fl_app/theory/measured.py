# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what the theory assumes in a training run: the exchange of the magnitude set, gradients against noise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fl_app.core.pools.arrays import top_mask
from fl_app.runs.callbacks import Callback
from fl_app.theory.aou import limit
from fl_app.theory.exchange import Exchange

if TYPE_CHECKING:
    from fl_app.runs.metrics import RoundFigures
    from fl_app.runs.run import Run

_TIES_SEED = 0  # equal magnitudes at the edge of the magnitude set are drawn by a generator of this seed


@dataclass(frozen=True)
class MeasuredExchange:
    """Hold the exchange of the magnitude set, averaged over the rounds of a run.

    Attributes
    ----------
    d, k, k_m : int
        Entries of the model, entries of a round, entries of the magnitude set.
    rounds : int
        Number of pairs of rounds that were compared.
    k0 : float
        Entries that leave the magnitude set in a round; as many enter it.
    p1, p2 : float
        Probabilities of Lemma 1: k0 / k_m and k0 / (d - k_m).
    entry_bias : float
        How far entering is from uniform: the largest difference (Kolmogorov-Smirnov) between the ranks by magnitude of
        the entries that enter and uniform ranks outside the set. 0 means uniform; near 1, only the entries just below
        the threshold enter.
    exit_bias : float
        The same for the entries that leave, among the ranks inside the set.
    return_share : float
        Share of the entries that enter that had been in the set one round before they were outside; uniform exchange
        gives about p2.
    mean_aou : float
        Mean age of update in the last round of the run.
    predicted_aou : float or None
        Mean age by the limit of Lemma 1 with this k0; None where k exceeds d / 2.
    """

    d: int
    k: int
    k_m: int
    rounds: int
    k0: float
    p1: float
    p2: float
    entry_bias: float
    exit_bias: float
    return_share: float
    mean_aou: float
    predicted_aou: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


@dataclass
class _Sums:
    pairs: int = 0
    exchanged: int = 0
    returned: int = 0
    entering: list[npt.NDArray[np.float64]] = field(default_factory=list)
    leaving: list[npt.NDArray[np.float64]] = field(default_factory=list)


class ExchangeMeter(Callback):
    """Watch the magnitude set of a run, round by round; ``result`` sums up.

    Parameters
    ----------
    k_m : int, optional
        Size of the magnitude set; by default that of the run's policy, or k.
    skip : int
        Rounds at the beginning that do not count: all entries were sent in round 0.
    """

    def __init__(self, k_m: int | None = None, skip: int = 1) -> None:
        self._k_m, self._skip, self._sums = k_m, skip, _Sums()
        self._rng = np.random.default_rng(_TIES_SEED)
        self._last: npt.NDArray[np.bool_] | None = None
        self._before: npt.NDArray[np.bool_] | None = None
        self._magnitude = np.empty(0, np.float32)
        self._run: tuple[int, int, float] | None = None

    def on_round(self, run: Run, row: RoundFigures) -> None:
        server = run.server
        if self._k_m is None:
            self._k_m = int(getattr(server.policy, "k_m", server.policy.k)) or server.policy.k
        self._run = server.d, server.policy.k, row.mean_aou
        if row.round < self._skip:
            return
        magnitude = np.abs(server.g)
        inside = top_mask(magnitude, self._k_m, self._rng)
        if self._last is not None:
            self._compare(self._last, inside)
        self._before, self._last, self._magnitude = self._last, inside, magnitude

    def _compare(self, last: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_]) -> None:
        entered, left = inside & ~last, last & ~inside
        sums = self._sums
        sums.pairs += 1
        sums.exchanged += int(np.count_nonzero(entered))
        if self._before is not None:
            sums.returned += int(np.count_nonzero(entered & self._before))
        sums.entering.append(_ranks(self._magnitude, ~last, entered))
        sums.leaving.append(_ranks(self._magnitude, last, left))

    def result(self) -> MeasuredExchange:
        """Return the exchange so far; ValueError if fewer than two rounds count."""
        sums = self._sums
        if not sums.pairs or self._run is None or self._k_m is None:
            raise ValueError(f"rounds must be at least {self._skip + 2} to see an exchange")
        (d, k, mean_aou), k_m = self._run, self._k_m
        k0 = sums.exchanged / sums.pairs
        known = k <= d / 2 and k_m <= k and (k_m < k or k0 > 0)
        return MeasuredExchange(
            d=d,
            k=k,
            k_m=k_m,
            rounds=sums.pairs,
            k0=k0,
            p1=k0 / k_m,
            p2=k0 / (d - k_m) if d > k_m else 0.0,
            entry_bias=_distance_from_uniform(np.concatenate(sums.entering)),
            exit_bias=_distance_from_uniform(np.concatenate(sums.leaving)),
            return_share=sums.returned / sums.exchanged if sums.exchanged else 0.0,
            mean_aou=mean_aou,
            predicted_aou=limit(Exchange(d, k, k_m, min(k0, d - k_m))).mean if known else None,
        )


def _ranks(
    magnitude: npt.NDArray[np.float32], among: npt.NDArray[np.bool_], chosen: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the ranks by magnitude, 0 for the smallest to 1 for the largest, of the chosen entries among others."""
    ordered = np.sort(magnitude[among])
    return np.searchsorted(ordered, magnitude[chosen]) / max(1, len(ordered) - 1)


def _distance_from_uniform(ranks: npt.NDArray[np.float64]) -> float:
    """Return the Kolmogorov-Smirnov distance of ranks from the uniform distribution; 0 if there are none."""
    if not len(ranks):
        return 0.0
    ordered, steps = np.sort(ranks), np.arange(1, len(ranks) + 1) / len(ranks)
    return float(max(np.max(steps - ordered), np.max(ordered - steps + 1 / len(ranks))))

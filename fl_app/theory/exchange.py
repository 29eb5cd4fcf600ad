# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the exchange process behind Lemma 1: who enters and leaves the magnitude set in a round."""

from __future__ import annotations

from dataclasses import dataclass

from oac_blocks.dsp.checks import integer, real, require


@dataclass(frozen=True)
class Exchange:
    """Hold the parameters of Lemma 1.

    In each round, k_0 entries leave the k_M entries of largest magnitude and k_0 others take their place, all drawn
    uniformly. The k_A = k - k_M oldest entries outside the magnitude set are selected as well.

    Attributes
    ----------
    d : int
        Number of entries of the model.
    k : int
        Number of entries selected in a round, at most d / 2.
    k_m : int
        Number of entries selected by magnitude.
    k0 : float
        Number of entries that are exchanged in a round, at most k_m and d - k_m. A measured mean need not be whole.
    """

    d: int
    k: int
    k_m: int
    k0: float

    def __post_init__(self) -> None:
        integer("d", self.d, 2)
        integer("k", self.k, 1, self.d)
        require(2 * self.k <= self.d, "k", self.k, f"at most d / 2 = {self.d / 2:g}, as Lemma 1 assumes")
        integer("k_m", self.k_m, 0, self.k)
        most = min(self.k_m, self.d - self.k_m)
        real("k0", self.k0, 0.0, float(most))
        # Without an exchange and without the age half, entries outside of the magnitude set would never be refreshed.
        require(self.k_a > 0 or self.k0 > 0, "k0", self.k0, "above 0 where k_m = k (nothing is selected by age)")

    @property
    def k_a(self) -> int:
        """Return the number of entries selected by age."""
        return self.k - self.k_m

    @property
    def p1(self) -> float:
        """Return the probability that an entry leaves the magnitude set in a round."""
        return self.k0 / self.k_m if self.k_m else 0.0

    @property
    def p2(self) -> float:
        """Return the probability that an entry outside the magnitude set enters it in a round."""
        return self.k0 / (self.d - self.k_m)

    @property
    def stale_inflow(self) -> float:
        """Return the share of all entries that reach age 1 in a round: they left the magnitude set or the age set."""
        return (self.k0 + self.k_a * (1 - self.p2)) / self.d

# SPDX-License-Identifier: GPL-3.0-or-later
"""Generate random votes to test a link, periodically or on request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.paced_source import PacedSource
from oac_blocks.dsp.checks import integer, real


class _Voter:
    def __init__(self, seed: int) -> None:
        self.k, self.abstain_share = 1, 0.0
        self._rng = np.random.default_rng(seed)

    def __call__(self) -> npt.NDArray[np.int8]:
        k = self.k  # a setter may change it in another thread
        votes = 2 * self._rng.integers(0, 2, k, np.int8) - 1
        votes[self._rng.random(k, np.float32) < self.abstain_share] = 0
        return votes


class vote_source(PacedSource):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Vote source: sends PDUs of k random votes with consecutive ``round`` numbers.

    Message port ``votes`` sends PDUs of int8 as u8vector: one every ``period_ms`` (0: none), and one for each message
    on port ``next``, whatever its content.
    """

    def __init__(self, k: int = 960, period_ms: int = 50, abstain_share: float = 0.0, seed: int = 0) -> None:
        self._voter = _Voter(integer("seed", seed, 0))
        self.set_k(k)
        self.set_abstain_share(abstain_share)
        PacedSource.__init__(self, "OAC Vote Source", "votes", self._voter, period_ms)

    def set_k(self, k: int) -> None:
        """Set the number of votes in a PDU."""
        self._voter.k = integer("k", k, 1)

    def set_abstain_share(self, abstain_share: float) -> None:
        """Set the share of votes that are 0."""
        self._voter.abstain_share = real("abstain_share", abstain_share, 0.0, 1.0)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the error rate of received votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.probes import Probe


class vote_probe(Probe):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Vote probe: measures the error rate of soft votes against a reference.

    Message ports ``soft_votes`` (PDUs of float32) and ``reference`` (PDUs of int8 as u8vector) take the two sides;
    votes with reference 0 are not compared. Two PDUs form a pair if they have the same ``round`` in their metadata;
    PDUs without a round are paired in the order of arrival. The output is one float for each pair, the share of wrong
    votes. Message port ``error_rate`` sends a dictionary for each pair with ``round`` (if there is one), ``errors``,
    ``votes``, ``error_rate`` and ``mean_error_rate`` since the start or the last ``reset``.
    """

    def __init__(self) -> None:
        Probe.__init__(self, "OAC Vote Probe", "soft_votes", np.float32, np.int8, "error_rate")
        self.reset()

    @property
    def mean_error_rate(self) -> float:
        """Return the share of wrong votes in all bursts; NaN before the first pair."""
        errors, votes = self._totals
        return errors / votes if votes else float("nan")

    def reset(self) -> None:
        """Restart the mean."""
        self._totals = (0, 0)

    def compare(self, received: npt.NDArray[Any], reference: npt.NDArray[Any]) -> tuple[float, pdus.Metadata] | str:
        votes = int(np.count_nonzero(reference))
        if len(received) != len(reference) or not votes:
            return f"cannot compare {len(received)} soft votes with {len(reference)} references, {votes} not 0"
        errors = votes - int(np.count_nonzero(received * reference > 0))
        self._totals = (self._totals[0] + errors, self._totals[1] + votes)
        rate = errors / votes
        mean = self.mean_error_rate
        return rate, {"errors": errors, "votes": votes, "error_rate": rate, "mean_error_rate": mean}

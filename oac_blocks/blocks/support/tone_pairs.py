# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry entries on pairs of adjacent subcarriers: what mappers and detectors of votes and of energies share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.bursts import BurstSink, BurstSource, grid_numerology
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform.schemes import Scheme


class PairMapper(BurstSource):
    """Convert PDUs of a scheme's payload, from the message port ``port``, to bursts of OFDM symbols."""

    def __init__(
        self,
        name: str,
        port: str,
        scheme: Scheme,
        active_subcarriers: int,
        repeats: int,
        seed: int,
        length_tag: str,
    ) -> None:
        self._num, self._scheme = grid_numerology(active_subcarriers), scheme
        self._rng = np.random.default_rng(integer("seed", seed, 0))
        self.set_repeats(repeats)
        BurstSource.__init__(self, name, port, scheme.dtype, self._num.active_subcarriers, length_tag)

    @property
    def scale(self) -> float:
        """Return the energy of an entry of 1; a vote has energy 1."""
        return 1.0

    @property
    def repeats(self) -> int:
        """Return the number of copies of each entry in a burst."""
        return self._repeats

    def set_repeats(self, repeats: int) -> None:
        """Set the number of copies of each entry in a burst, from the next burst on."""
        self._repeats = integer("repeats", repeats, 1)

    def encode(self, data: npt.NDArray[Any]) -> npt.NDArray[np.complex64]:
        payload = self._scheme.check(data)
        return self._scheme.encode(payload, self._num, rng=self._rng, repeats=self._repeats, scale=self.scale)


class PairDetector(BurstSink):
    """Convert bursts of OFDM symbols to PDUs of k float32, sent on the message port ``port``."""

    def __init__(self, name: str, port: str, k: int, active_subcarriers: int, repeats: int, length_tag: str) -> None:
        self._num = grid_numerology(active_subcarriers)
        self.set_k(k)
        self.set_repeats(repeats)
        BurstSink.__init__(self, name, port, self._num.active_subcarriers, length_tag)

    @property
    def k(self) -> int:
        """Return the number of entries in a burst."""
        return self._k

    @property
    def repeats(self) -> int:
        """Return the number of copies of each entry in a burst."""
        return self._repeats

    def set_k(self, k: int) -> None:
        """Set the number of entries in a burst."""
        self._k = integer("k", k, 1)

    def set_repeats(self, repeats: int) -> None:
        """Set the number of copies of each entry in a burst."""
        self._repeats = integer("repeats", repeats, 1)

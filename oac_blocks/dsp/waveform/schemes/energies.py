# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the energy scheme (``energy``): entries are energies on tone pairs, and the channel adds up the energies.

It needs what the majority vote needs, and neither phases nor channel knowledge. Its received values estimate the mean
of the clients' entries without bias, magnitudes included.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform import energy, fsk_mv
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.schemes.amplitudes import Analog
from oac_blocks.dsp.waveform.schemes.base import Floats, Grid, Payload

# Largest energy on a subcarrier, where a vote has 1. Among the 96 pairs of a symbol, one such entry adds a third to the
# symbol's energy.
PEAK_ENERGY = 32.0


_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


@lru_cache(maxsize=8)
def entry_order(k: int) -> npt.NDArray[np.int64]:
    """Return the entry that each of k pairs of subcarriers carries: neighbours are far apart in the burst.

    Entries of one layer of a model have similar magnitudes. In their own order some symbols would have many times the
    mean energy, and others only a few strong tones, which a receiver may take for a trigger.
    """
    stride = max(1, round(k * _GOLDEN_RATIO))
    while math.gcd(stride, k) > 1:
        stride += 1
    order = np.arange(k) * stride % k
    order.flags.writeable = False
    return order


def _in_entry_order(values: Floats) -> Floats:
    """Return what was received (..., k) on the pairs in the order of the entries."""
    ordered = np.empty_like(values)
    ordered[..., entry_order(values.shape[-1])] = values
    return ordered


def _lower_median(values: npt.NDArray[np.float64]) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])


class Energy(Analog):
    """Aggregation by energies; payloads are float32 gradient entries, received values estimate their mean.

    The update follows the received values themselves, so memory and downlink are those of ``Analog``.

    Examples
    --------
    >>> from oac_blocks.dsp import Numerology
    >>> scheme, num, rng = oac.Energy(), Numerology(), np.random.default_rng(1)
    >>> entries = np.float32([0.5, -2, 3])
    >>> scheme.detect(scheme.encode(entries, num, rng=rng), 3, num).round(3)
    array([ 0.5, -2. ,  3. ], dtype=float32)
    """

    name = "energy"
    coherent = False
    repeatable = True

    def common_scale(self, rms: npt.NDArray[np.float64], peak: npt.NDArray[np.float64]) -> float:
        """Return the energy of an entry of 1: entries of RMS value have the energy of a vote.

        The median over the clients counts, so that one client cannot move the scale far by a false report; of two
        clients, the one with smaller entries decides. If entries are so uneven that the largest one would exceed
        ``PEAK_ENERGY``, the scale is smaller.
        """
        require(bool(np.all(np.isfinite(rms)) and np.all(np.isfinite(peak))), "rms", rms, "finite, as must be the peak")
        return min(1 / _lower_median(rms), PEAK_ENERGY / _lower_median(np.maximum(peak, rms)))

    def entries_per_symbol(self, num: Numerology) -> int:
        return num.votes_per_symbol

    def encode(
        self,
        payload: Payload,
        num: Numerology,
        *,
        rng: np.random.Generator | None = None,
        repeats: int = 1,
        scale: float = 1.0,
        precoding: npt.ArrayLike | None = None,  # noqa: ARG002 (energies need none)
    ) -> Grid:
        """Return the grid, with the entries in ``entry_order``; energies are cut at ``PEAK_ENERGY``."""
        most = np.float32(PEAK_ENERGY / scale)
        sent = np.clip(payload, -most, most)[..., entry_order(payload.shape[-1])]
        return energy.encode(sent, num, rng, scale, repeats)

    def detect(
        self,
        grid: Grid,
        k: int,
        num: Numerology,
        *,
        repeats: int = 1,
        scale: float = 1.0,
        clients: int = 1,
        mean_gain: float = 1.0,
    ) -> Floats:
        """Return the estimate of the mean entry; ``mean_gain`` is the mean power of the clients' channels."""
        return _in_entry_order(energy.detect(grid, k, num, scale, repeats)) / np.float32(clients * mean_gain)

    @property
    def waveform(self) -> str:
        return "energy"

    def signed_energies(self, payload: Payload, scale: float) -> Payload:
        """Return the energies of the entries with the entries' signs, cut at ``PEAK_ENERGY``."""
        return np.clip(np.float32(scale) * payload, -PEAK_ENERGY, PEAK_ENERGY, dtype=np.float32)

    def energies(self, grid: Grid, k: int, num: Numerology, *, repeats: int = 1) -> Floats:
        return _in_entry_order(fsk_mv.energies(grid, k, num, repeats))

    def received_of(self, soft_votes: Floats, scale: float, clients: int) -> Floats:
        """Return the estimate of the mean entry of these clients."""
        return soft_votes / np.float32(scale * max(clients, 1))

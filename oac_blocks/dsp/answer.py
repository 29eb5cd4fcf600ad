# SPDX-License-Identifier: GPL-3.0-or-later
"""The samples of a client's answer: a frame of votes, or its own sequence, at any fraction of a sample.

The fraction is a phase ramp over the subcarriers. It turns each OFDM symbol within itself, prefix included, so the
receiver sees a burst that is late by exactly that, with no filter and no edge.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp import fsk_mv, ofdm
from oac_blocks.dsp.checks import integer, real
from oac_blocks.dsp.client_sequence import sequence_grid
from oac_blocks.dsp.numerology import Numerology
from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.rounds import RoundLayout
from oac_blocks.dsp.shared_slot import shared_slot

ComplexArray = npt.NDArray[np.complex64]


def payload_answer(
    votes: npt.NDArray[np.int8],
    client: int,
    layout: RoundLayout,
    rng: np.random.Generator | None,
    fraction_samples: float = 0.0,
    cfo_rad_per_sample: float = 0.0,
) -> ComplexArray:
    """A frame of votes (k,) with this client's sync symbols; where all votes are 0 it is sync symbols alone."""
    client = integer("client", client, 0, layout.clients - 1)
    frame = layout.frame(len(votes))
    is_sync = frame.is_sync()
    grid = np.empty((frame.symbols, layout.num.active_subcarriers), np.complex64)
    grid[is_sync] = _sync_grid(client, layout.clients, layout.num)
    grid[~is_sync] = fsk_mv.encode(votes, layout.num, rng, layout.repeats)
    return _samples(grid, layout.num, fraction_samples, cfo_rad_per_sample)


def sequence_answer(
    client: int, layout: RoundLayout, fraction_samples: float = 0.0, cfo_rad_per_sample: float = 0.0
) -> ComplexArray:
    """The client's own sequence, one symbol."""
    client = integer("client", client, 0, layout.clients - 1)
    return _samples(sequence_grid(client + 1, layout.num)[None], layout.num, fraction_samples, cfo_rad_per_sample)


@lru_cache(maxsize=256)
def _sync_grid(client: int, clients: int, num: Numerology) -> ComplexArray:
    return ofdm.demodulate(shared_slot(clients, num)[client], num)[0]


def _samples(grid: ComplexArray, num: Numerology, fraction_samples: float, cfo_rad_per_sample: float) -> ComplexArray:
    fraction = real("fraction_samples", fraction_samples, -1.0, 1.0)
    ramp = np.exp(-2j * np.pi * num.subcarrier_frequencies() * fraction).astype(np.complex64)
    samples = ofdm.modulate(grid * ramp, num)
    if cfo_rad_per_sample:
        samples *= phasors(real("cfo_rad_per_sample", cfo_rad_per_sample, -np.pi, np.pi), len(samples))
    return samples

# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the samples of a client's answer, a frame of entries or its own sequence, with a fractional sample offset.

The fractional offset is a phase ramp over the subcarriers. It rotates each OFDM symbol cyclically, prefix included, so
the receiver sees a burst with exactly this delay, without a filter and without edge effects.

A client whose clock has a known rate error stretches its answer to match: each symbol begins where the server's clock
would place it. A longer or shorter prefix provides the whole samples of this shift, and the ramp provides the rest.
Without it, a burst of 1,138 symbols would be off by seven samples at its end for a clock error of 20 ppm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import MAX_PPM, integer, real
from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.client_sequence import sequence_grid
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.shared_slot import shared_slot

ComplexArray = npt.NDArray[np.complex64]


def payload_answer(
    payload: npt.NDArray[Any],
    client: int,
    layout: RoundLayout,
    rng: np.random.Generator | None,
    fraction_samples: float = 0.0,
    cfo_rad_per_sample: float = 0.0,
    drift_ppm: float = 0.0,
) -> ComplexArray:
    """Return a frame with the payload (k,) of the layout's scheme and this client's sync symbols.

    If all entries are 0, the frame has only the sync symbols.
    """
    client = integer("client", client, 0, layout.clients - 1)
    frame = layout.frame(len(payload))
    is_sync = frame.is_sync()
    grid = np.empty((frame.symbols, layout.num.active_subcarriers), np.complex64)
    grid[is_sync] = _sync_grid(client, layout.clients, layout.num)
    grid[~is_sync] = layout.scheme.encode(payload, layout.num, rng=rng, repeats=layout.repeats)
    return _samples(grid, layout.num, fraction_samples, cfo_rad_per_sample, drift_ppm)


def sequence_answer(
    client: int, layout: RoundLayout, fraction_samples: float = 0.0, cfo_rad_per_sample: float = 0.0
) -> ComplexArray:
    """Return the client's own sequence, one OFDM symbol."""
    client = integer("client", client, 0, layout.clients - 1)
    return _samples(sequence_grid(client + 1, layout.num)[None], layout.num, fraction_samples, cfo_rad_per_sample)


@lru_cache(maxsize=256)
def _sync_grid(client: int, clients: int, num: Numerology) -> ComplexArray:
    return ofdm.demodulate(shared_slot(clients, num)[client], num)[0]


def _samples(
    grid: ComplexArray, num: Numerology, fraction_samples: float, cfo_rad_per_sample: float, drift_ppm: float = 0.0
) -> ComplexArray:
    fraction = real("fraction_samples", fraction_samples, -1.0, 1.0)
    stretch = 1e-6 * real("drift_ppm", drift_ppm, -MAX_PPM, MAX_PPM) * num.symbol_samples
    late = fraction + stretch * np.arange(len(grid))
    whole = np.rint(late - fraction).astype(np.int64)
    # The factors e^{-j2 pi f late} differ from symbol to symbol only if the burst is stretched.
    angles = 2 * np.pi * num.subcarrier_frequencies() * (late - whole if stretch else late[:1])[:, None]
    samples = ofdm.modulate(grid * np.exp(-1j * angles).astype(np.complex64), num)
    if whole[-1]:
        samples = _spaced(samples.reshape(len(grid), -1), whole, num)
    if cfo_rad_per_sample:
        samples *= phasors(real("cfo_rad_per_sample", cfo_rad_per_sample, -np.pi, np.pi), len(samples))
    return samples


def _spaced(symbols: ComplexArray, later: npt.NDArray[np.int64], num: Numerology) -> ComplexArray:
    """Join symbols so that each begins ``later`` samples after its nominal start; prefixes grow or shrink to fit."""
    size = num.symbol_samples
    samples = np.empty(symbols.size + later[-1], np.complex64)
    steps = np.flatnonzero(np.diff(later))
    runs = zip([0, *(steps + 1)], [*(steps + 1), len(symbols)], strict=True)
    # Runs are written from last to first, so that a shorter prefix loses its beginning to the symbol before it.
    for first, end in reversed(list(runs)):
        begin = first * size + later[first]
        samples[begin : begin + (end - first) * size] = symbols[first:end].ravel()
        # A longer prefix also holds the samples that come before it in the cyclic symbol.
        if first and later[first] > later[first - 1]:
            gap = later[first] - later[first - 1]
            samples[begin - gap : begin] = symbols[first, num.fft_size - gap : num.fft_size]
    return samples

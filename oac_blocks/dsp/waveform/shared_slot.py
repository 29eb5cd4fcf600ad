# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a frame's sync symbol: all clients send one Zadoff-Chu root at once, each with its own cyclic shift."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.client_sequence import sequence_grid, sequence_length
from oac_blocks.dsp.waveform.numerology import Numerology


def shared_root(num: Numerology) -> int:
    """Return the root of the shared slot: 25 for a length of 193.

    This root is far from both ends of the range, where the chirp is slow and a frequency offset looks like a long
    delay.
    """
    return max(1, round(25 / 193 * sequence_length(num)))


def max_clients(num: Numerology) -> int:
    """Return how many clients fit into one slot; their shifts are at least 1.5 main lobes of the correlation apart."""
    return num.active_subcarriers // 3


def cyclic_shifts_samples(n_clients: int, num: Numerology) -> npt.NDArray[np.int64]:
    """Return each client's shift in samples, spread evenly over the symbol without its prefix."""
    n_clients = integer("n_clients", n_clients, 1, max_clients(num))
    return np.arange(n_clients) * num.fft_size // n_clients


def shared_slot(n_clients: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """Return one OFDM symbol for each client, (n_clients, symbol_samples); they differ by their cyclic shifts."""
    shifts = cyclic_shifts_samples(n_clients, num)
    ramps = np.exp(-2j * np.pi * shifts[:, None] * num.subcarrier_frequencies())
    return ofdm.modulate((sequence_grid(shared_root(num), num) * ramps)[:, None, :].astype(np.complex64), num)

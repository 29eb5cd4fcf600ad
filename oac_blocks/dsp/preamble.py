# SPDX-License-Identifier: GPL-3.0-or-later
"""The waveforms that radios find each other by, and how they are found.

- the *trigger*: the server's call, a binary Golay sequence four times over; it says when, and at which frequency;
- a *client's sequence*: a Zadoff-Chu sequence of its own root on the active subcarriers, for a slot of its own;
- the *shared slot*: one root, each client at its own cyclic shift, all at once; this is a frame's sync symbol.

Detection and estimation work on any known waveform and stand in ``detection`` and ``arrival``; what users need of
them is here too.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp import ofdm
from oac_blocks.dsp.arrival import Arrival, estimate_arrival
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.detection import Detection, find_triggers, normalised_correlation, trigger_threshold
from oac_blocks.dsp.numerology import Numerology
from oac_blocks.dsp.sequences import zadoff_chu
from oac_blocks.dsp.trigger import SEGMENT_SAMPLES, SEGMENTS, trigger

__all__ = [
    "SEGMENTS",
    "SEGMENT_SAMPLES",
    "Arrival",
    "Detection",
    "client_sequence",
    "cyclic_shifts_samples",
    "estimate_arrival",
    "find_triggers",
    "max_clients",
    "normalised_correlation",
    "separate_clients",
    "shared_slot",
    "trigger",
    "trigger_threshold",
]

SHARED_ROOT = 25  # far from both ends, where the chirp is slow and a frequency offset looks like a long delay
_LEAST_SHIFT_SAMPLES = 4  # three times the width of the correlation's main lobe in the default band


@lru_cache(maxsize=256)
def _sequence_grid(root: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """A Zadoff-Chu sequence on the active subcarriers: the shortest prime length that covers them, cut to fit."""
    length = num.active_subcarriers + 1
    while any(length % p == 0 for p in range(2, int(length**0.5) + 1)):
        length += 1
    return zadoff_chu(root, length)[: num.active_subcarriers].astype(np.complex64)


def client_sequence(client: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """The OFDM symbol, prefix included, that belongs to this client alone (root ``client + 1``)."""
    client = integer("client", client, 0, num.active_subcarriers - 1)
    return ofdm.modulate(_sequence_grid(client + 1, num)[None], num)


def max_clients(num: Numerology) -> int:
    """How many clients fit into one shared slot."""
    return num.fft_size // _LEAST_SHIFT_SAMPLES


def cyclic_shifts_samples(n_clients: int, num: Numerology) -> npt.NDArray[np.int64]:
    """Each client's shift in the shared slot, spread evenly over the symbol's body."""
    n_clients = integer("n_clients", n_clients, 1, max_clients(num))
    return np.arange(n_clients) * num.fft_size // n_clients


def shared_slot(n_clients: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """One OFDM symbol for each client, (n_clients, symbol_samples), sent at once and told apart by their shifts."""
    shifts = cyclic_shifts_samples(n_clients, num)
    ramps = np.exp(-2j * np.pi * shifts[:, None] * num.subcarrier_frequencies())
    return ofdm.modulate((_sequence_grid(SHARED_ROOT, num) * ramps)[:, None, :].astype(np.complex64), num)


def separate_clients(symbol: npt.ArrayLike, n_clients: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """Impulse responses (..., n_clients, window) of all clients from one received shared slot (..., symbol_samples).

    The window is the distance between shifts, centred on "exactly in time": index ``window // 2`` is delay 0. A unit
    channel gives a peak of 1. Delays beyond half a window appear at the neighbour, so bring clients that close first.
    """
    shifts = cyclic_shifts_samples(n_clients, num)
    grid = ofdm.demodulate(symbol, num)[..., 0, :] * np.conj(_sequence_grid(SHARED_ROOT, num))
    window = num.fft_size // n_clients
    delays = shifts[:, None] + np.arange(window) - window // 2
    # An inverse DFT over the active subcarriers alone, straight at the delays that matter.
    kernel = np.exp(2j * np.pi * num.subcarrier_frequencies()[:, None] * delays.reshape(1, -1))
    responses = grid @ (kernel / num.active_subcarriers).astype(np.complex64)
    return responses.reshape(*grid.shape[:-1], n_clients, window)

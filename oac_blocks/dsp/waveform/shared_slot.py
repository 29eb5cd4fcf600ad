# SPDX-License-Identifier: GPL-3.0-or-later
"""All clients in one OFDM symbol, each at its own cyclic shift of one Zadoff-Chu root: a frame's sync symbol."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import complex_array, integer, require
from oac_blocks.dsp.receive.shared_fit import Tones, refine
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.client_sequence import sequence_grid, sequence_length
from oac_blocks.dsp.waveform.numerology import Numerology


@dataclass(frozen=True)
class SharedArrivals:
    """What one shared slot tells of each client; arrays of shape (..., n_clients), ``snr`` (...)."""

    delay_samples: npt.NDArray[np.float64]  # against "exactly in time"
    amplitude: npt.NDArray[np.complex128]
    snr: npt.NDArray[np.float64]  # linear: energy of a unit client's subcarrier over the residual's
    sigma_samples: npt.NDArray[np.float64]  # of the delay, by the joint bound at this noise and these amplitudes


def shared_root(num: Numerology) -> int:
    """25 of 193: far from both ends, where the chirp is slow and a frequency offset looks like a long delay."""
    return max(1, round(25 / 193 * sequence_length(num)))


def max_clients(num: Numerology) -> int:
    """How many clients fit into one slot: shifts of three times the half width of the correlation's main lobe."""
    return num.active_subcarriers // 3


def cyclic_shifts_samples(n_clients: int, num: Numerology) -> npt.NDArray[np.int64]:
    """Each client's shift, spread evenly over the symbol's body."""
    n_clients = integer("n_clients", n_clients, 1, max_clients(num))
    return np.arange(n_clients) * num.fft_size // n_clients


def shared_slot(n_clients: int, num: Numerology) -> npt.NDArray[np.complex64]:
    """One OFDM symbol for each client, (n_clients, symbol_samples), sent at once and told apart by their shifts."""
    shifts = cyclic_shifts_samples(n_clients, num)
    ramps = np.exp(-2j * np.pi * shifts[:, None] * num.subcarrier_frequencies())
    return ofdm.modulate((sequence_grid(shared_root(num), num) * ramps)[:, None, :].astype(np.complex64), num)


def separate_clients(
    symbol: npt.ArrayLike, n_clients: int, num: Numerology, early_samples: int = 0
) -> npt.NDArray[np.complex64]:
    """Impulse responses (..., n_clients, window) of all clients from one received slot (..., symbol_samples).

    The window is the distance between shifts; index ``window // 2`` is "exactly in time". A unit channel gives a peak
    of 1. Delays beyond half a window appear at the neighbour, so bring the clients that close first. The band's sharp
    edges leave side lobes of the neighbours; :func:`estimate_shared` takes them out.
    """
    flattened = flattened_slot(symbol, num, early_samples)
    shifts = cyclic_shifts_samples(n_clients, num)
    window = num.fft_size // n_clients
    delays = shifts[:, None] + np.arange(window) - window // 2
    # An inverse DFT over the active subcarriers alone, straight at the delays that matter.
    kernel = np.exp(2j * np.pi * num.subcarrier_frequencies()[:, None] * delays.reshape(1, -1))
    responses = flattened @ (kernel / num.active_subcarriers).astype(np.complex64)
    return responses.reshape(*flattened.shape[:-1], n_clients, window)


def estimate_shared(
    symbol: npt.ArrayLike, n_clients: int, num: Numerology, early_samples: int = 0, iterations: int = 8
) -> SharedArrivals:
    """Fractional delay and amplitude of every client from one received slot (..., symbol_samples), fitted jointly.

    Each client is one path; all N delays and amplitudes are solved for together (Gauss-Newton on the subcarriers), so
    that nobody's side lobes count as somebody else's delay. Delays are right within half the distance of two shifts.
    """
    shifts = cyclic_shifts_samples(n_clients, num)
    iterations = integer("iterations", iterations, 1, 100)
    flattened = flattened_slot(symbol, num, early_samples).astype(np.complex128)
    tones_of = Tones(num, shifts, num.fft_size // n_clients)
    delay = tones_of.search(flattened)
    half = np.array(tones_of.window / 2)
    fit, delay, sigma = refine(tones_of, flattened, delay, -half, half, iterations)
    return SharedArrivals(delay, fit.amplitude, 1 / np.maximum(fit.noise, 1e-30), sigma)


def flattened_slot(symbol: npt.ArrayLike, num: Numerology, early_samples: int) -> npt.NDArray[np.complex64]:
    """The slot's subcarriers with the sequence taken out: a sum of one tone for each client."""
    samples = complex_array("symbol", symbol)
    size = num.symbol_samples
    require(samples.shape[-1] == size, "symbol", f"{samples.shape[-1]} samples", f"one symbol of {size} samples")
    grid = ofdm.demodulate(samples, num, early_samples)[..., 0, :]
    return grid * np.conj(sequence_grid(shared_root(num), num))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell the clients of one shared slot apart: their impulse responses, or a joint fit of all delays and amplitudes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import complex_array, integer, require
from oac_blocks.dsp.receive.shared_fit import Tones, refine
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.client_sequence import sequence_grid
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples, shared_root


@dataclass(frozen=True)
class SharedArrivals:
    """Estimates for each client from one shared slot; arrays have the shape (..., n_clients), ``snr`` has (...)."""

    delay_samples: npt.NDArray[np.float64]  # delay against the nominal time
    amplitude: npt.NDArray[np.complex128]
    # Linear ratio of the energy of a unit client's subcarrier to the energy of the residual.
    snr: npt.NDArray[np.float64]
    sigma_samples: npt.NDArray[np.float64]  # standard deviation of the delay by the joint bound


def separate_clients(
    symbol: npt.ArrayLike, n_clients: int, num: Numerology, early_samples: int = 0
) -> npt.NDArray[np.complex64]:
    """Return the impulse responses (..., n_clients, window) of all clients in a received slot (..., symbol_samples).

    The window is the distance between two shifts, and index ``window // 2`` is the nominal time. A unit channel gives a
    peak of 1. A delay beyond half a window appears at the neighbouring client, so bring the clients that close
    first. The sharp edges of the band leave side lobes of the neighbours; :func:`estimate_shared` removes them.
    """
    flattened = flattened_slot(symbol, num, early_samples)
    shifts = cyclic_shifts_samples(n_clients, num)
    window = num.fft_size // n_clients
    delays = shifts[:, None] + np.arange(window) - window // 2
    # This is an inverse DFT over the active subcarriers alone, computed only at the delays of interest.
    kernel = np.exp(2j * np.pi * num.subcarrier_frequencies()[:, None] * delays.reshape(1, -1))
    responses = flattened @ (kernel / num.active_subcarriers).astype(np.complex64)
    return responses.reshape(*flattened.shape[:-1], n_clients, window)


def estimate_shared(
    symbol: npt.ArrayLike, n_clients: int, num: Numerology, early_samples: int = 0, iterations: int = 8
) -> SharedArrivals:
    """Estimate the fractional delay and amplitude of every client from one received slot (..., symbol_samples).

    Each client is modelled as one propagation path. All N delays and amplitudes are solved for jointly (Gauss-Newton on
    the subcarriers), so that the side lobes of one client do not bias the delay of another. Delays are correct within
    half the distance between two shifts.
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
    """Return the slot's subcarriers with the sequence removed: a sum of one tone for each client."""
    samples = complex_array("symbol", symbol)
    size = num.symbol_samples
    require(samples.shape[-1] == size, "symbol", f"{samples.shape[-1]} samples", f"one symbol of {size} samples")
    grid = ofdm.demodulate(samples, num, early_samples)[..., 0, :]
    return grid * np.conj(sequence_grid(shared_root(num), num))

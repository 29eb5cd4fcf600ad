# SPDX-License-Identifier: GPL-3.0-or-later
"""All clients in one OFDM symbol, each at its own cyclic shift of one Zadoff-Chu root: a frame's sync symbol."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp import ofdm
from oac_blocks.dsp.checks import complex_array, integer, real, require
from oac_blocks.dsp.client_sequence import sequence_grid, sequence_length
from oac_blocks.dsp.numerology import Numerology
from oac_blocks.dsp.peak_threshold import peak_threshold
from oac_blocks.dsp.shared_fit import Fit, Tones, diagonal, drift_ways

_LARGEST_STEP = 0.5  # samples
_NEAR_SAMPLES = 1.0  # of where the search found it a client is fitted, in a burst
_LEAST_SIGMA_SAMPLES = 1e-9
_NEGLIGIBLE = 1e-5  # of the variance: steps that end the fit


@dataclass(frozen=True)
class SharedArrivals:
    """What one shared slot tells of each client; arrays of shape (..., n_clients), ``snr`` (...).

    For the slots of one burst ``strength`` is that of all of them, and lacks their axis.
    """

    delay_samples: npt.NDArray[np.float64]  # against "exactly in time"
    amplitude: npt.NDArray[np.complex128]
    snr: npt.NDArray[np.float64]  # linear: energy of a unit client's subcarrier over the residual's
    sigma_samples: npt.NDArray[np.float64]  # of the delay, by the joint bound at this noise and these amplitudes
    strength: npt.NDArray[np.float64]  # energy that the client explains of what the others leave, 0 to 1


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
    flattened = _flattened(symbol, num, early_samples)
    shifts = cyclic_shifts_samples(n_clients, num)
    window = num.fft_size // n_clients
    delays = shifts[:, None] + np.arange(window) - window // 2
    # An inverse DFT over the active subcarriers alone, straight at the delays that matter.
    kernel = np.exp(2j * np.pi * num.subcarrier_frequencies()[:, None] * delays.reshape(1, -1))
    responses = flattened @ (kernel / num.active_subcarriers).astype(np.complex64)
    return responses.reshape(*flattened.shape[:-1], n_clients, window)


def estimate_shared(
    symbol: npt.ArrayLike,
    n_clients: int,
    num: Numerology,
    early_samples: int = 0,
    iterations: int = 8,
    *,
    drift_samples: float | None = None,
) -> SharedArrivals:
    """Fractional delay and amplitude of every client from received slots (..., symbol_samples), fitted jointly.

    Each client is one path; all N delays and amplitudes are solved for together (Gauss-Newton on the subcarriers), so
    that nobody's side lobes count as somebody else's delay. Delays are right within half the distance of two shifts.

    With ``drift_samples`` the slots (..., slots, symbol_samples) are those of one burst, evenly spaced, and a client's
    delay changes steadily by up to so much from the first to the last, either way. Clients are then searched with all
    slots' energy, and fitted slot by slot.
    """
    shifts = cyclic_shifts_samples(n_clients, num)
    iterations = integer("iterations", iterations, 1, 100)
    flattened = _flattened(symbol, num, early_samples).astype(np.complex128)
    require(drift_samples is None or flattened.ndim > 1, "symbol", f"shape {flattened.shape}", "several slots")
    tones_of = Tones(num, shifts, drift_ways(drift_samples, flattened.shape[-2] if flattened.ndim > 1 else 1))
    middle = delay = tones_of.search(flattened)
    reach = tones_of.window if drift_samples is None else _NEAR_SAMPLES
    low, high = middle - reach, middle + reach
    if drift_samples is None:
        low, high = np.maximum(low, -tones_of.window / 2), np.minimum(high, tones_of.window / 2)
    for _ in range(iterations):
        fit = Fit(tones_of, flattened, shifts + delay)
        step, information = fit.step()
        delay = np.clip(delay + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP), low, high)
        # A silent client's delay wanders; nobody waits for it.
        if np.all(step**2 * diagonal(information) < _NEGLIGIBLE * fit.noise[..., None]):
            break
    fit = Fit(tones_of, flattened, shifts + delay)
    information = fit.step()[1]
    variance = fit.noise[..., None] / 2 * diagonal(np.linalg.inv(information))
    sigma = np.sqrt(np.maximum(variance, _LEAST_SIGMA_SAMPLES**2))
    snr = 1 / np.maximum(fit.noise, 1e-30)
    return SharedArrivals(delay, fit.amplitude, snr, sigma, tones_of.strength(fit))


def heard_threshold(
    false_alarm: float, n_clients: int, num: Numerology, slots: int = 1, drift_samples: float = 0.0
) -> float:
    """The ``strength`` that a silent client exceeds in white noise with this probability, at most.

    The others' fits take one and a half complex values each out of the noise.
    """
    left = num.active_subcarriers - 1.5 * (integer("n_clients", n_clients, 1, max_clients(num)) - 1)
    bandwidth = float(np.std(2 * np.pi * num.subcarrier_frequencies()))
    ways = drift_ways(real("drift_samples", drift_samples, 0.0), slots)
    return peak_threshold(
        false_alarm / (1 if ways is None else len(ways)), num.fft_size // n_clients, bandwidth, left, slots
    )


def _flattened(symbol: npt.ArrayLike, num: Numerology, early_samples: int) -> npt.NDArray[np.complex64]:
    """The slot's subcarriers with the sequence taken out: a sum of one tone for each client."""
    samples = complex_array("symbol", symbol)
    size = num.symbol_samples
    require(samples.shape[-1] == size, "symbol", f"{samples.shape[-1]} samples", f"one symbol of {size} samples")
    grid = ofdm.demodulate(samples, num, early_samples)[..., 0, :]
    return grid * np.conj(sequence_grid(shared_root(num), num))

# SPDX-License-Identifier: GPL-3.0-or-later
"""All clients in one OFDM symbol, each at its own cyclic shift of one Zadoff-Chu root: a frame's sync symbol."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp import ofdm
from oac_blocks.dsp.checks import complex_array, integer, require
from oac_blocks.dsp.client_sequence import sequence_grid, sequence_length
from oac_blocks.dsp.numerology import Numerology
from oac_blocks.dsp.peak_threshold import peak_threshold

_LARGEST_STEP = 0.5  # samples
_LARGEST_DRIFT = 1.0  # samples, from a burst's middle to any of its slots
_GRID = 4  # steps of a sample where delays are searched
_NEGLIGIBLE = 1e-5  # of the variance: steps that end the fit


@dataclass(frozen=True)
class SharedArrivals:
    """What one shared slot tells of each client; arrays of shape (..., n_clients), ``snr`` (...).

    Fitted together, ``strength`` is that of all slots and lacks their axis.
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
    together: bool = False,
) -> SharedArrivals:
    """Fractional delay and amplitude of every client from received slots (..., symbol_samples), fitted jointly.

    Each client is one path; all N delays and amplitudes are solved for together (Gauss-Newton on the subcarriers), so
    that nobody's side lobes count as somebody else's delay. Delays are right within half the distance of two shifts.

    With ``together`` the slots (..., slots, symbol_samples) are those of one burst: a client's delays in them are
    within a sample of each other. They are then searched with all slots' energy, and fitted slot by slot.
    """
    shifts = cyclic_shifts_samples(n_clients, num)
    iterations = integer("iterations", iterations, 1, 100)
    flattened = _flattened(symbol, num, early_samples).astype(np.complex128)
    require(not together or flattened.ndim > 1, "symbol", f"shape {flattened.shape}", "several slots to fit together")
    tones_of = _Tones(num, n_clients)
    middle = tones_of.search(flattened, together)
    reach = _LARGEST_DRIFT if together else tones_of.window
    low, high = (np.clip(middle + d, -tones_of.window / 2, tones_of.window / 2) for d in (-reach, reach))
    delay = np.broadcast_to(middle, (*flattened.shape[:-1], n_clients))
    for _ in range(iterations):
        fit = _Fit(tones_of, flattened, shifts + delay)
        step, information = fit.step()
        delay = np.clip(delay + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP), low, high)
        # A silent client's delay wanders; nobody waits for it.
        if np.all(step**2 * _diagonal(information) < _NEGLIGIBLE * fit.noise[..., None]):
            break
    fit = _Fit(tones_of, flattened, shifts + delay)
    information = fit.step()[1]
    variance = fit.noise[..., None] / 2 * _diagonal(np.linalg.inv(information))
    strength = tones_of.strength(fit, together)
    return SharedArrivals(delay, fit.amplitude, 1 / np.maximum(fit.noise, 1e-30), np.sqrt(variance), strength)


def heard_threshold(false_alarm: float, n_clients: int, num: Numerology, slots: int = 1) -> float:
    """The ``strength`` that a silent client exceeds in white noise with this probability, at most.

    The others' fits take one and a half complex values each out of the noise.
    """
    left = num.active_subcarriers - 1.5 * (integer("n_clients", n_clients, 1, max_clients(num)) - 1)
    bandwidth = float(np.std(2 * np.pi * num.subcarrier_frequencies()))
    return peak_threshold(false_alarm, num.fft_size // n_clients, bandwidth, left, slots)


class _Tones:
    """A delay is a tone over the subcarriers. Here: the tones of all clients, and their correlation on a fine grid."""

    def __init__(self, num: Numerology, n_clients: int) -> None:
        self.shifts = cyclic_shifts_samples(n_clients, num)
        self.window = num.fft_size // n_clients
        self.bins = num.active_bins() - num.fft_size // 2
        self.omega = 2 * np.pi * self.bins / num.fft_size
        self.size = _GRID * num.fft_size
        self.grid = np.arange(-_GRID // 2 * self.window, _GRID // 2 * self.window + 1)
        ones = np.ones(len(self.bins), np.complex128)
        self.lobe = self.responses(ones)  # of a client in time, on the grid, cyclic

    def __call__(self, delays: npt.NDArray[np.float64]) -> npt.NDArray[np.complex128]:
        """Tones (..., N, active) of delays (..., N): e^{-jwd}, by a table of a few exponentials."""
        turn = -2j * np.pi * _GRID / self.size * delays[..., None]
        first, run = int(self.bins[0]), math.isqrt(int(self.bins[-1] - self.bins[0])) + 1
        coarse = np.exp(turn * (first + run * np.arange(run)))
        fine = np.exp(turn * np.arange(run))
        table = (coarse[..., :, None] * fine[..., None, :]).reshape(*delays.shape, run * run)
        half = len(self.bins) // 2
        second = int(self.bins[half]) - first
        return np.concatenate((table[..., :half], table[..., second : second + half]), axis=-1)

    def responses(self, flattened: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
        """The sum over subcarriers of each delay on the grid, (..., size)."""
        spectrum = np.zeros((*flattened.shape[:-1], self.size), np.complex128)
        half = len(self.bins) // 2
        spectrum[..., self.bins[0] : self.bins[half - 1] + 1 or None] = flattened[..., :half]
        spectrum[..., self.bins[half] : self.bins[-1] + 1] = flattened[..., half:]
        return scipy.fft.ifft(spectrum, axis=-1, norm="forward", overwrite_x=True)

    def windows(
        self, residual: npt.NDArray[np.complex128], amplitude: npt.NDArray[np.complex128], steps: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Energy (..., N, grid) of each client's responses in its window: the residual's and its own at ``steps``."""
        cells = (_GRID * self.shifts[:, None] + self.grid) % self.size
        own = self.lobe[(self.grid - steps[..., None]) % self.size]
        both = self.responses(residual)[..., cells] + amplitude[..., None] * own
        return both.real**2 + both.imag**2

    def search(self, flattened: npt.NDArray[np.complex128], together: bool) -> npt.NDArray[np.float64]:
        """Delays on a grid of a quarter sample: each client's strongest response, three times with the others out."""
        lead = flattened.shape[:-1]
        steps = np.zeros((*lead, len(self.shifts)), np.int64)
        amplitude, residual = np.zeros(steps.shape, np.complex128), flattened
        for turn in range(4):
            energy = self.windows(residual, amplitude, steps)
            if together:
                energy = energy.sum(axis=-3, keepdims=True)
            found = np.broadcast_to(self.grid[energy.argmax(axis=-1)], steps.shape)
            if turn == 3 or (turn and np.array_equal(found, steps)):
                break
            steps = found
            fit = _Fit(self, flattened, self.shifts + steps / _GRID)
            amplitude, residual = fit.amplitude, fit.residual
        return steps / _GRID

    def strength(self, fit: _Fit, together: bool) -> npt.NDArray[np.float64]:
        """Of all energy that is left with the others taken out: each client's share, at its best delay on the grid."""
        own = fit.tones * fit.amplitude[..., None] + fit.residual[..., None, :]
        responses = self.responses(own)
        cells = (_GRID * self.shifts[:, None] + self.grid) % self.size
        inside = np.take_along_axis(responses, np.broadcast_to(cells, (*own.shape[:-1], len(self.grid))), axis=-1)
        peaks, total = inside.real**2 + inside.imag**2, np.sum(own.real**2 + own.imag**2, axis=-1)
        if together:
            peaks, total = peaks.sum(axis=-3), total.sum(axis=-2)
        return peaks.max(axis=-1) / np.maximum(len(self.bins) * total, 1e-30)


class _Fit:
    """The amplitudes that fit best at given delays, what they leave, and where the delays should go."""

    def __init__(
        self, tones_of: _Tones, flattened: npt.NDArray[np.complex128], delays: npt.NDArray[np.float64]
    ) -> None:
        n, active = delays.shape[-1], len(tones_of.omega)
        self.omega, self.tones = tones_of.omega, tones_of(delays)
        self.adjoint = self.tones.conj()
        # A whisper of regularisation: two silent clients may stand on one another.
        self.gram = self.adjoint @ self.tones.swapaxes(-1, -2) + 1e-9 * active * np.eye(n)
        right = self.adjoint @ flattened[..., None]
        self.amplitude = np.linalg.solve(self.gram, right)[..., 0]
        self.residual = flattened - (self.amplitude[..., None, :] @ self.tones)[..., 0, :]
        # Three real unknowns for each client are taken out of the residual's two real values a subcarrier.
        left = max(1.0, active - 1.5 * n)
        self.noise = np.sum(self.residual.real**2 + self.residual.imag**2, axis=-1) / left

    def step(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """A Gauss-Newton step of the delays, the amplitudes following, and the information (N, N) that it rests on."""
        weighted = self.omega * self.tones
        mixed = self.adjoint @ weighted.swapaxes(-1, -2)
        curved = weighted.conj() @ weighted.swapaxes(-1, -2)
        # What the amplitudes can take up of a change of delay tells nothing.
        curved = curved - mixed.conj().swapaxes(-1, -2) @ np.linalg.solve(self.gram, mixed)
        conjugate = self.amplitude.conj()
        information = (conjugate[..., :, None] * curved * self.amplitude[..., None, :]).real
        information += 1e-9 * len(self.omega) * np.eye(self.amplitude.shape[-1])
        slope = 1j * conjugate * (weighted.conj() @ self.residual[..., None])[..., 0]
        return np.linalg.solve(information, slope.real[..., None])[..., 0], information


def _diagonal(matrices: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _flattened(symbol: npt.ArrayLike, num: Numerology, early_samples: int) -> npt.NDArray[np.complex64]:
    """The slot's subcarriers with the sequence taken out: a sum of one tone for each client."""
    samples = complex_array("symbol", symbol)
    size = num.symbol_samples
    require(samples.shape[-1] == size, "symbol", f"{samples.shape[-1]} samples", f"one symbol of {size} samples")
    grid = ofdm.demodulate(samples, num, early_samples)[..., 0, :]
    return grid * np.conj(sequence_grid(shared_root(num), num))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit several tones over the subcarriers, one for the delay of each client.

Delays are first searched on a grid by one FFT. Gauss-Newton steps then move all delays at once and solve for the
amplitudes in each step (variable projection). All matrices are N by N for N clients, and real: the active subcarriers
lie symmetric about their middle, from which the tones count their frequency.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp.checks import real
from oac_blocks.dsp.waveform.numerology import Numerology

_LARGEST_STEP = 0.5  # samples; a longer step would leave the main lobe
_LEAST_SIGMA_SAMPLES = 1e-9
# Share of the variance; a step whose square is smaller ends the fit, because the next would be far shorter.
_NEGLIGIBLE = 1e-3
_SMALL = 16  # largest size of matrices that are inverted without LAPACK
GRID = 4  # grid steps per sample in the search for delays
# Number of subcarriers on which clients of equal phase add up; with more of them a window has only one peak.
_MANY_LINES = 6
# Samples over a burst between two drifts; half a step leaves an error of 3/8 sample at the ends.
_DRIFT_STEP_SAMPLES = 1.5


def drift_ways(drift_samples: float, slots: int) -> npt.NDArray[np.int64]:
    """Return the drifts to search, (ways, slots), in grid steps: each is linear over evenly spaced slots."""
    beside = math.ceil(real("drift_samples", drift_samples, 0.0, 1e4) / _DRIFT_STEP_SAMPLES - 0.5) if slots > 1 else 0
    total = GRID * _DRIFT_STEP_SAMPLES * np.arange(-beside, beside + 1)
    return np.rint(total[:, None] * (np.arange(slots) / max(slots - 1, 1) - 0.5)).astype(np.int64)


class Tones:
    """The tones of all clients and their correlation on a fine grid; a delay is a tone over the subcarriers.

    Each client is searched within ``window`` samples around its shift. With ``drifts`` (ways, slots) the search uses
    the energy of all slots, which are the last but one axis of the input.
    """

    def __init__(
        self, num: Numerology, shifts: npt.NDArray[np.int64], window: int, drifts: npt.NDArray[np.int64] | None = None
    ) -> None:
        self._num, self.shifts, self.window, self.drifts = num, shifts, window, drifts
        self.bins = num.active_bins() - num.fft_size // 2
        # A prefactor of a tone belongs to its amplitude, so that frequencies may count from the band's middle.
        self.middle = np.pi * float(self.bins[0] + self.bins[-1]) / num.fft_size
        self.omega = 2 * np.pi * self.bins / num.fft_size - self.middle
        self.size = GRID * num.fft_size
        reach = GRID // 2 * self.window
        self.grid = np.arange(-reach, reach + 1)
        self.beyond = 0 if drifts is None else int(np.abs(drifts).max())
        self.wide = np.arange(-reach - self.beyond, reach + self.beyond + 1)
        self.cells = (GRID * self.shifts[:, None] + self.wide) % self.size
        # Cyclic response of a client in time, on the grid.
        self.lobe = self.responses(np.ones(len(self.bins), np.complex128))

    def __call__(self, delays: npt.NDArray[np.float64]) -> npt.NDArray[np.complex128]:
        """Return the tones (..., N, active) of delays (..., N): e^{-jwd}, from a table of a few exponentials."""
        half, turn = len(self.bins) // 2, -1j * delays[..., None]
        step, run = 2 * np.pi / self._num.fft_size, math.isqrt(half - 1) + 1
        coarse = np.exp(turn * (self.omega[half] + step * run * np.arange(run)))
        fine = np.exp(turn * (step * np.arange(run)))
        upper = (coarse[..., :, None] * fine[..., None, :]).reshape(*delays.shape, run * run)[..., :half]
        tones = np.empty((*delays.shape, 2 * half), np.complex128)
        tones[..., half:] = upper
        np.conjugate(upper[..., ::-1], out=tones[..., :half])
        return tones

    def responses(self, flattened: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
        """Return the sum over subcarriers at each delay on the grid, (..., size)."""
        spectrum = np.zeros((*flattened.shape[:-1], self.size), np.complex128)
        half = len(self.bins) // 2
        spectrum[..., self.bins[0] : self.bins[half - 1] + 1 or None] = flattened[..., :half]
        spectrum[..., self.bins[half] : self.bins[-1] + 1] = flattened[..., half:]
        return scipy.fft.ifft(spectrum, axis=-1, norm="forward", overwrite_x=True)

    def search(self, flattened: npt.NDArray[np.complex128]) -> npt.NDArray[np.float64]:
        """Return delays on a grid of a quarter sample, (..., N).

        Many clients with the same amplitude and phase add up on a few subcarriers and cancel on the others. Their
        responses then have several peaks of the same height in a window, and all clients shifted to one side explain as
        much as all clients in time. The search therefore starts twice, once with no client subtracted and once with all
        clients in time, and the smaller residual wins. If both leave the same residual, "all in time" wins, because
        that is what the clients were ordered to do.
        """
        steps = np.zeros((*flattened.shape[:-1], len(self.shifts)), np.int64)
        blind, blind_left = self._search(flattened, steps, np.zeros(steps.shape, np.complex128), flattened)
        if len(self.bins) > _MANY_LINES * len(self.shifts):
            return blind / GRID
        fit = Fit(self, flattened, self.shifts + steps / GRID)
        in_time, left = self._search(flattened, steps, fit.amplitude, fit.residual)
        # The slots of a burst are searched together.
        if self.drifts is not None:
            left, blind_left = (np.sum(energy, axis=-1, keepdims=True) for energy in (left, blind_left))
        return np.where((left <= blind_left)[..., None], in_time, blind) / GRID

    def _search(
        self,
        flattened: npt.NDArray[np.complex128],
        steps: npt.NDArray[np.int64],
        amplitude: npt.NDArray[np.complex128],
        residual: npt.NDArray[np.complex128],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Find each client's strongest response, four times, with the others subtracted: steps, residual energy."""
        for turn in range(4):
            found = self._strongest(self._energy(residual, amplitude, steps))[0]
            if turn and np.array_equal(found, steps):
                break
            steps = found
            fit = Fit(self, flattened, self.shifts + steps / GRID)
            amplitude, residual = fit.amplitude, fit.residual
        return steps, np.sum(residual.real**2 + residual.imag**2, axis=-1)

    def some(self, clients: npt.NDArray[np.bool_]) -> Tones:
        """Return the tones of these clients alone."""
        return self if clients.all() else Tones(self._num, self.shifts[clients], self.window, self.drifts)

    def largest(self, flattened: npt.NDArray[np.complex128]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the grid step (..., N) at which each client explains most of its window, and that energy."""
        responses = self.responses(flattened)[..., self.cells]
        steps, energy = self._strongest(responses.real**2 + responses.imag**2)
        return steps, energy / len(self.bins)

    def _energy(
        self,
        residual: npt.NDArray[np.complex128],
        amplitude: npt.NDArray[np.complex128],
        steps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.float64]:
        """Return the energy of each client's responses around its window, (..., N, wide), of residual and own tone."""
        own = self.lobe[(self.wide - steps[..., None]) % self.size]
        both = self.responses(residual)[..., self.cells] + amplitude[..., None] * own
        return both.real**2 + both.imag**2

    def _strongest(self, energy: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the grid step (..., N) at which each client's energy is largest in its window, and this energy."""
        if self.drifts is None:
            return self.grid[energy.argmax(axis=-1)], energy.max(axis=-1)
        n = len(self.grid)
        slots = range(self.drifts.shape[1])
        totals = np.stack(
            [
                np.add.reduce([energy[..., i, :, first[i] : first[i] + n] for i in slots])
                for first in self.drifts + self.beyond
            ]
        )
        peaks = totals.max(axis=-1)
        way = peaks.argmax(axis=0)
        place = np.take_along_axis(totals.argmax(axis=-1), way[None], axis=0)[0]
        # The shape is (..., N, slots); the swap puts the slots before the clients.
        steps = (self.grid[place][..., None] + self.drifts[way]).swapaxes(-1, -2)
        return steps, peaks.max(axis=0)


class Fit:
    """The amplitudes that fit best at given delays, their residual, and the next step of the delays."""

    def __init__(self, tones_of: Tones, flattened: npt.NDArray[np.complex128], delays: npt.NDArray[np.float64]) -> None:
        n, active = delays.shape[-1], len(tones_of.omega)
        self.omega, self.tones = tones_of.omega, tones_of(delays)
        # Sums over a symmetric band are twice the real parts over its upper half, as pairs of real numbers.
        self._upper = self.omega[active // 2 :].repeat(2)
        self._pairs = np.ascontiguousarray(self.tones[..., active // 2 :]).view(np.float64)
        gram = 2 * (self._pairs @ self._pairs.swapaxes(-1, -2))
        # Weak regularisation, because two silent clients may have the same delay.
        self.inverse = _inverse(gram + 1e-9 * active * np.eye(n))
        right = self._onto_tones(flattened)
        self._amplitude = (self.inverse @ right[..., None])[..., 0]
        self.residual = flattened - (self._amplitude[..., None, :] @ self.tones)[..., 0, :]
        self.amplitude = self._amplitude * np.exp(1j * tones_of.middle * delays)
        # Each client takes three real unknowns out of the residual's two real values per subcarrier.
        left = max(1.0, active - 1.5 * n)
        self.level = np.sum(flattened.real**2 + flattened.imag**2, axis=-1)
        self.noise = np.sum(self.residual.real**2 + self.residual.imag**2, axis=-1) / left

    @property
    def own_energy(self) -> npt.NDArray[np.float64]:
        """Return the energy (..., N) that no other client could explain: the residual would grow by it."""
        return (self.amplitude.real**2 + self.amplitude.imag**2) / _diagonal(self.inverse)

    def _onto_tones(self, spectrum: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
        """Return the inner products (..., N) of all tones with a spectrum."""
        products: npt.NDArray[np.complex128] = (self.tones @ spectrum[..., None].conj())[..., 0]
        return products.conj()

    def step(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return a Gauss-Newton step of the delays, amplitudes solved for, and its information matrix (N, N)."""
        weighted = self._upper * self._pairs
        # The sum of w e^{jw (d_m - d_n)} over the band is j times a real matrix, which changes its sign with m and n.
        turned = np.stack((-weighted[..., 1::2], weighted[..., ::2]), axis=-1).reshape(weighted.shape)
        mixed = 2 * (turned @ self._pairs.swapaxes(-1, -2))
        # The part of a delay's change that amplitudes can absorb carries no information.
        curved = 2 * (weighted @ weighted.swapaxes(-1, -2)) + mixed @ self.inverse @ mixed
        pairs = np.stack((self._amplitude.real, self._amplitude.imag), axis=-1)
        information = curved * (pairs @ pairs.swapaxes(-1, -2))
        # A silent client has no delay. Another weak regularisation leaves it where it is, at any level.
        information += (1e-9 * self.level + 1e-30)[..., None, None] * np.eye(self.amplitude.shape[-1])
        slope = (1j * self._amplitude.conj() * self._onto_tones(self.omega * self.residual)).real
        return (_inverse(information) @ slope[..., None])[..., 0], information


def refine(
    tones_of: Tones,
    flattened: npt.NDArray[np.complex128],
    delay: npt.NDArray[np.float64],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    iterations: int,
) -> tuple[Fit, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the fit, the delays within ``low`` and ``high``, and their standard deviations by the joint bound."""
    for _ in range(iterations):
        fit = Fit(tones_of, flattened, tones_of.shifts + delay)
        step, information = fit.step()
        delay = np.clip(delay + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP), low, high)
        # The delay of a silent client wanders, and the fit does not wait for it to converge.
        if np.all(step**2 * _diagonal(information) < _NEGLIGIBLE * fit.noise[..., None]):
            break
    fit = Fit(tones_of, flattened, tones_of.shifts + delay)
    variance = fit.noise[..., None] / 2 * _diagonal(_inverse(information))
    return fit, delay, np.sqrt(np.maximum(variance, _LEAST_SIGMA_SAMPLES**2))


def _inverse(matrices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Invert positive definite matrices (..., N, N); for small ones LAPACK's threads cost more than all the rest."""
    n = matrices.shape[-1]
    if n > _SMALL:
        return np.linalg.inv(matrices)
    work = matrices.copy()
    for i in range(n):  # Gauss-Jordan in place; positive definite matrices need no pivoting
        pivot = 1 / work[..., i, i, None]
        row = work[..., i, :] * pivot
        column = work[..., :, i].copy()
        work -= column[..., :, None] * row[..., None, :]
        work[..., :, i] = -column * pivot
        work[..., i, :] = row
        work[..., i, i] = pivot[..., 0]
    return work


def _diagonal(matrices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.diagonal(matrices, axis1=-2, axis2=-1)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluate a sampled signal between its samples, as another clock would sample it.

Both functions evaluate the band-limited signal through x (zero before and after) at arbitrary positions. The exact
function is the reference. The fast function is for positions that advance by nearly one, like those of a real clock.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # scipy.fft is imported when it is used: settings do without it

from oac_blocks.dsp.checks import complex_array, require
from oac_blocks.dsp.phasor import phasors

BLOCK = 2048  # FFT size of the fast resampler
GUARD = 128  # samples dropped at each end of a block, where the FFT wraps around
HOP = BLOCK - 2 * GUARD
# A block with sharp ends rings up to the highest frequency, and a fractional delay spreads the ringing. Hence the fade.
_FADE = np.sin(np.pi / 2 * (np.arange(96) + 0.5) / 96).astype(np.float32) ** 2
_BLOCKS_AT_ONCE = 16  # blocks per batch, a quarter of a megabyte per array, so that temporaries stay in the cache
_SERIES_ERROR = 1e-4  # relative error of the Taylor series, -80 dB: well below the error that the guard leaves
_EXACT_OVERSAMPLING = 4
_EXACT_HALF_TAPS = 24
_EXACT_MARGIN = 1 << 15  # zeros around the signal: the tails of a sinc decay slowly, and the FFT wraps them around


def resample(x: npt.ArrayLike, positions: npt.ArrayLike) -> npt.NDArray[np.complex64]:
    """Return x (..., n) at ``positions`` (..., m), float64 in samples.

    The error is below -90 dB for signals that leave the top tenth of the band empty, and -57 dB for OFDM bursts, whose
    sharp symbol borders reach up to the highest frequency.

    The signal is processed in blocks. A phase ramp in the frequency domain applies the delay at the block's middle, and
    a short Taylor series applies the clock's drift within the block.
    """
    x, positions = _arguments(x, positions)
    padded = np.zeros((*x.shape[:-1], x.shape[-1] + 2 * BLOCK), np.complex64)
    padded[..., BLOCK:-BLOCK] = x
    m, rows = positions.shape[-1], math.prod(x.shape[:-1])
    run = HOP * max(1, _BLOCKS_AT_ONCE // rows)
    y = np.empty(positions.shape, np.complex64)
    for start in range(0, m, run):
        y[..., start : start + run] = _resample_run(padded, positions[..., start : start + run])
    return y


def _resample_run(padded: npt.NDArray[np.complex64], positions: npt.NDArray[np.float64]) -> npt.NDArray[np.complex64]:
    m = positions.shape[-1]
    blocks = -(-m // HOP)
    # The last block is filled up with positions whose results are dropped.
    fill = positions[..., -1:] + np.arange(1, blocks * HOP - m + 1)
    at = np.concatenate((positions, fill), axis=-1).reshape(*positions.shape[:-1], blocks, HOP)

    offset = at[..., HOP // 2] - HOP // 2  # position of the block's first sample without drift
    whole = np.rint(offset)
    at -= offset[..., None]
    at -= np.arange(HOP)
    segments = _segments(padded, whole.astype(np.int64) - GUARD)
    y = delay_blocks(segments, offset - whole, at.astype(np.float32))
    return y.reshape(*positions.shape[:-1], -1)[..., :m]


def delay_blocks(
    segments: npt.NDArray[np.complex64], fraction: npt.NDArray[np.float64], drift: npt.NDArray[np.float32]
) -> npt.NDArray[np.complex64]:
    """Return segments (..., BLOCK) at GUARD + i + fraction + drift[i] for i = 0 .. HOP-1, with the shape (..., HOP).

    ``fraction`` (...) is one value for each block; ``drift`` (..., HOP) is added to it, at most a few samples. The
    segments are overwritten.
    """
    segments[..., : len(_FADE)] *= _FADE
    segments[..., -len(_FADE) :] *= _FADE[::-1]
    spectrum = scipy.fft.fft(segments, axis=-1, overwrite_x=True)
    step = 2 * np.pi / BLOCK * fraction
    turns = phasors(step, BLOCK, -BLOCK // 2)
    spectrum[..., : BLOCK // 2] *= turns[..., BLOCK // 2 :]
    spectrum[..., BLOCK // 2 :] *= turns[..., : BLOCK // 2]

    derivative = (2j * np.pi * scipy.fft.fftfreq(BLOCK)).astype(np.complex64)
    terms = []
    for order in range(series_length(float(np.abs(drift).max()))):
        if order:
            spectrum *= derivative / order
        terms.append(scipy.fft.ifft(spectrum, axis=-1)[..., GUARD:-GUARD])
    y = terms.pop()
    for term in reversed(terms):
        y = y * drift
        y += term
    return y


def resample_exact(x: npt.ArrayLike, positions: npt.ArrayLike) -> npt.NDArray[np.complex128]:
    """Return x (n,) at ``positions`` (m,) in samples, with an error of about -80 dB; slow, used as a reference.

    The spectrum is padded with zeros, which is exact. A long Kaiser-windowed sinc then interpolates a signal that fills
    only a quarter of its band.
    """
    x, positions = _arguments(x, positions)
    require(x.ndim == 1, "x", f"shape {x.shape}", "one-dimensional")
    margin = _EXACT_MARGIN
    n = scipy.fft.next_fast_len(len(x) + 2 * margin)
    n += n % 2
    spectrum = scipy.fft.fftshift(scipy.fft.fft(np.pad(x.astype(np.complex128), (margin, n - len(x) - margin))))
    wide = np.pad(spectrum, (_EXACT_OVERSAMPLING - 1) * n // 2)
    dense = scipy.fft.ifft(scipy.fft.ifftshift(wide)) * _EXACT_OVERSAMPLING

    beta, taps = 14.0, np.arange(1 - _EXACT_HALF_TAPS, _EXACT_HALF_TAPS + 1)
    y = np.zeros(len(positions), np.complex128)
    inside = np.flatnonzero((positions > -margin / 2) & (positions < len(x) + margin / 2))
    for rows in np.array_split(inside, max(1, len(inside) // 8192)):
        at = (positions[rows] + margin) * _EXACT_OVERSAMPLING
        index = np.floor(at).astype(np.int64)[:, None] + taps
        u = at[:, None] - index
        window = np.i0(beta * np.sqrt(np.clip(1 - (u / _EXACT_HALF_TAPS) ** 2, 0, None))) / np.i0(beta)
        y[rows] = np.einsum("nt,nt->n", np.sinc(u) * window, dense[index])
    return y


def _arguments(x: Any, positions: Any) -> tuple[npt.NDArray[np.complex64], npt.NDArray[np.float64]]:
    x = complex_array("x", x)
    positions = np.asarray(positions, np.float64)
    require(
        positions.ndim == x.ndim and positions.size > 0, "positions", f"shape {positions.shape}", "of x's dimensions"
    )
    same = positions.shape[:-1] == x.shape[:-1]
    require(same, "positions", f"shape {positions.shape}", f"of shape {x.shape[:-1]} + (m,)")
    require(bool(np.isfinite(positions).all()), "positions", "NaN or inf", "finite")
    return x, positions


def _segments(padded: npt.NDArray[np.complex64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.complex64]:
    """Return copies of x[start : start + BLOCK]; ``padded`` is x with a block of zeros on each side."""
    windows = np.lib.stride_tricks.sliding_window_view(padded, BLOCK, axis=-1)
    starts = np.clip(starts + BLOCK, 0, padded.shape[-1] - BLOCK)
    lead = np.indices(starts.shape, sparse=True)[:-1]
    return windows[(*lead, starts)]


def series_length(largest_drift_samples: float) -> int:
    """Return how many terms of the Taylor series of e^{jw drift} at w = pi keep the error within the limit."""
    argument = math.pi * largest_drift_samples
    if not argument < 8:  # streams ask for every block, and the text takes longer than the answer
        require(
            False,
            "positions",
            f"a drift of {largest_drift_samples:.3g} samples within a block",
            "nearly one apart: a drift below 2.5 samples in 2,048 (some 2,500 ppm)",
        )
    terms, error = 1, argument
    while error > _SERIES_ERROR:
        terms += 1
        error *= argument / terms
    return terms

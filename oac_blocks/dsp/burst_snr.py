# SPDX-License-Identifier: GPL-3.0-or-later
"""Which SNR does the server see? Sync symbols against unused subcarriers.

Every client sends all active subcarriers of a sync symbol with unit energy, and their cyclic shifts are orthogonal, so
the mean energy there is the sum of the clients' channel powers plus noise. The subcarriers outside the band hold noise
alone (and leakage of all clients at -55 dB or so, by clocks and fractional delays: at 40 dB and four clients the SNR
is measured 0.6 dB too low). Their power is taken by the median, which an impulse does not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp.frame import FrameLayout
from oac_blocks.dsp.numerology import Numerology

_MARGIN_BINS = 4  # next to the band are left out: neighbours leak into them
_NYQUIST_BINS = 8  # at the ends of the spectrum are left out: the joints of symbols ring there between two samples
_NULL_SYMBOLS = 64  # of a burst are looked at for noise


@dataclass(frozen=True)
class BurstPower:
    """Mean energy of a subcarrier in one burst's sync symbols, and of the noise; the noise is NaN without nulls."""

    sync: float
    noise: float


def measure(samples: npt.NDArray[np.complex64], layout: FrameLayout, early_samples: int) -> BurstPower:
    """From a burst's samples (layout.samples,) as they were received."""
    num = layout.num
    symbols = samples.reshape(layout.symbols, num.symbol_samples)
    start = num.cp_samples - early_samples
    window = slice(start, start + num.fft_size)
    step = max(1, layout.symbols // _NULL_SYMBOLS)
    nulls = _energies(symbols[::step, window])[:, _null_bins(num)]
    active = _energies(symbols[layout.is_sync(), window])[:, num.active_bins()]
    noise = float(np.median(nulls) / np.log(2)) if nulls.size else float("nan")
    return BurstPower(float(active.mean(dtype=np.float64)), noise)


def snr_db(powers: Sequence[BurstPower], participants: int) -> float | None:
    """Energy of a participant's subcarrier, fading included, over the noise; ``None`` if either is not to be seen."""
    sync = float(np.mean([power.sync for power in powers]))
    noise = float(np.mean([power.noise for power in powers]))
    if not noise > 0 or sync <= noise:
        return None
    return float(10 * np.log10((sync - noise) / noise / participants))


def _energies(bodies: npt.NDArray[np.complex64]) -> npt.NDArray[np.float32]:
    spectrum = scipy.fft.fftshift(scipy.fft.fft(bodies, axis=-1, norm="ortho"), axes=-1)
    return spectrum.real**2 + spectrum.imag**2


def _null_bins(num: Numerology) -> npt.NDArray[np.int64]:
    """Bins outside the band, of an fftshifted spectrum; the ones around DC are left to the oscillator's leakage."""
    active = num.active_bins()
    below = np.arange(_NYQUIST_BINS, active[0] - _MARGIN_BINS)
    above = np.arange(active[-1] + 1 + _MARGIN_BINS, num.fft_size - _NYQUIST_BINS)
    return np.concatenate((below, above))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a client's precoding in analog mode, which makes all clients add up along the same axes.

The client measures its channel on the server's pilot, which comes over the same path just before the burst. It knows
its clock error from the trigger, and removes the phase ramp that grows with the drift from symbol to symbol. It cannot
know the noise on the pilot, its residual frequency offset and the last error of its timing: these cost accuracy. The
server knows their statistics (`fl_app.air.simulation.gains`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.fft

from fl_app.air.bursts import early_samples, window_middle_samples
from fl_app.air.pilots import pilot_noise
from fl_app.air.settings import AirSettings
from fl_app.air.simulation.path import Path
from fl_app.core.streams import stream
from oac_blocks.dsp import preamble
from oac_blocks.dsp.channel.noise import complex_gaussian
from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.analog import precoder
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.dsp.waveform.numerology import Numerology

ComplexArray = npt.NDArray[np.complex64]


@dataclass(frozen=True)
class Precoding:
    """The factors of one client: one for each subcarrier, and a ramp that undoes the drift of its clock."""

    of_tones: ComplexArray  # (active,)
    clock_ppm: float  # rate error that the ramp undoes
    layout: FrameLayout
    early_samples: int

    def apply(self, grid: ComplexArray, rows: slice | npt.NDArray[np.int64]) -> ComplexArray:
        """Return these rows of a payload (payload symbols, active) as the client sends them."""
        sent: ComplexArray = grid[rows] * self.of_tones
        if self.clock_ppm != 0:
            symbols = np.flatnonzero(~self.layout.is_sync())[rows]
            sent *= drift_ramps(self.clock_ppm, symbols, self.layout.num, self.early_samples)
        return sent


def client_precodings(
    paths: Sequence[Path],
    taps: npt.NDArray[np.complex64],
    nominal_samples: int,
    layout: FrameLayout,
    settings: AirSettings,
) -> list[Precoding]:
    """Return the precoding of each client; ``taps`` (N, taps) are those of the paths, with the carriers' phases."""
    channels = estimate_channels(paths, taps, nominal_samples, settings)
    tones = precoder(channels, settings.inversion, settings.least_magnitude)
    early = early_samples(settings)
    return [Precoding(own, path.link.clock_ppm, layout, early) for own, path in zip(tones, paths, strict=True)]


def estimate_channels(
    paths: Sequence[Path], taps: npt.NDArray[np.complex64], nominal_samples: int, settings: AirSettings
) -> ComplexArray:
    """Return the channels (N, active) that the clients measure on the pilot, in the mean over its symbols.

    All symbols of the pilot are the same, and no clock drifts during the pilot. So what arrives in one window arrives
    in all of them, but for the rotation by the frequency offset: the code sends one symbol between two others, through
    delay and multipath by one FFT. A client that is early or late by more than a symbol hears noise alone.
    """
    num, symbols = settings.numerology(), settings.pilot_symbols
    sent, reference = _pilot(num)
    size, n = num.symbol_samples, len(sent)
    draws = [stream(path.seed, "air pilot", *path.where) for path in paths]
    unseen_samples = [settings.pilot_timing_sigma_samples * rng.standard_normal() for rng in draws]
    late = np.array([path.link.arrival_samples() for path in paths]) - nominal_samples - unseen_samples
    spectrum = scipy.fft.fft(taps, n, axis=-1)
    spectrum *= sent
    turns = -2 * np.pi / n * np.where(np.abs(late) <= size, late, 0.0)
    spectrum[:, : n // 2] *= phasors(turns, n // 2)
    spectrum[:, n // 2 :] *= phasors(turns, n - n // 2, n // 2 - n)
    arrived = scipy.fft.ifft(spectrum, axis=-1, overwrite_x=True)[:, 2 * size : 3 * size]
    arrived[np.abs(late) > size] = 0
    # The record of the pilot begins at the time of the burst's record, which is later than its true time.
    cfo_rad = 2 * np.pi / num.sample_rate_hz * np.array([path.link.cfo_hz for path in paths])
    later_samples = settings.pilot_age_seconds * num.sample_rate_hz + (symbols + 2) / 2 * size
    arrived *= np.exp(1j * np.outer(cfo_rad, nominal_samples + size + np.arange(size) - later_samples))
    arrived *= np.exp(1j * np.outer(cfo_rad * size, np.arange(symbols))).mean(axis=1, keepdims=True)
    for own, rng in zip(arrived, draws, strict=True):
        noise = complex_gaussian(symbols * size, symbols * pilot_noise(settings), rng)
        own += noise.reshape(symbols, size).mean(axis=0)
    return ofdm.demodulate(arrived, num, early_samples(settings))[:, 0] / reference


@lru_cache(maxsize=8)
def _pilot(num: Numerology) -> tuple[ComplexArray, ComplexArray]:
    """Return the spectrum of three symbols of the pilot with a symbol of silence around, and its tones (active,).

    The two outer symbols are there because a real pilot has no sharp edges, at which a fractional delay would ring.
    """
    symbol = preamble.client_sequence(0, num)
    around = np.zeros_like(symbol)
    spectrum = scipy.fft.fft(np.concatenate((around, symbol, symbol, symbol, around)))
    return spectrum.astype(np.complex64, copy=False), ofdm.demodulate(symbol, num)[0]


def drift_ramps(clock_ppm: float, symbols: npt.NDArray[np.int64], num: Numerology, early_samples: int) -> ComplexArray:
    """Return the phases (n, active) that undo a clock's drift from the beginning of the burst to these symbols of it.

    The phase is that of the middle of the server's FFT window.
    """
    earlier_samples = 1e-6 * clock_ppm * (num.symbol_samples * symbols + window_middle_samples(num, early_samples))
    # A phase of some 20 rad has a rounding error of 2e-6 rad in float32, whose sine is ten times as fast.
    phase = np.outer(-2 * np.pi * earlier_samples, num.subcarrier_frequencies()).astype(np.float32)
    ramps = np.empty(phase.shape, np.complex64)
    np.cos(phase, out=ramps.real)
    np.sin(phase, out=ramps.imag)
    return ramps

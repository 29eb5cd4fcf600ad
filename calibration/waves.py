# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the waveforms that the virtual radios receive: a trigger, and the sync symbols of a frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft

from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.waveform.client_sequence import sequence_grid
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples, shared_root
from oac_blocks.dsp.waveform.trigger import trigger

Floats = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]

MARGIN_SAMPLES = 96  # samples on both sides of a trigger, for the tails of a fractional delay and for multipath
_LOOK_SAMPLES = 64  # samples after the first path in which the strongest path may be


class SharedTones:
    """The subcarriers of each client in a sync symbol, for any delay and multipath."""

    def __init__(self, layout: RoundLayout) -> None:
        num = layout.num
        self._omega = 2 * np.pi * num.subcarrier_frequencies()
        shifts = cyclic_shifts_samples(layout.clients, num)
        self._tones = sequence_grid(shared_root(num), num) * np.exp(-1j * shifts[:, None] * self._omega)

    def of(self, client: int, delays: Floats, taps: Complex) -> Complex:
        """Return the subcarriers (symbols, subcarriers) for delays (symbols,) and taps (taps,)."""
        present = np.flatnonzero(taps)
        echoes = taps[present] @ np.exp(-1j * present[:, None] * self._omega)
        moved: Complex = self._tones[client] * echoes * np.exp(-1j * delays[:, None] * self._omega)
        return moved


def trigger_records(fraction: Floats, cfo: Floats, paths: Complex) -> Complex:
    """Return the trigger (N, n) behind a margin, with a fractional delay, multipath (N, taps) and a carrier offset."""
    size = len(trigger()) + 2 * MARGIN_SAMPLES
    spectrum = scipy.fft.fft(np.pad(trigger(), MARGIN_SAMPLES).astype(np.complex128))
    omega = 2 * np.pi * scipy.fft.fftfreq(size)
    present = np.flatnonzero(np.any(paths, axis=0))
    echoes = paths[:, present] @ np.exp(-1j * present[:, None] * omega)
    moved = scipy.fft.ifft(spectrum * echoes * np.exp(-1j * fraction[:, None] * omega), axis=-1)
    turned: Complex = moved * phasors(cfo, size)
    return turned


def strongest(records: Complex, cfo: Floats) -> Floats:
    """Return where the trigger correlates best with each record, to some tenths of a sample."""
    size = records.shape[1]
    straight = records * phasors(-cfo, size)
    template = np.conj(scipy.fft.fft(trigger().astype(np.complex128), size))
    response = np.abs(scipy.fft.ifft(scipy.fft.fft(straight, axis=-1) * template, axis=-1))
    first = MARGIN_SAMPLES - 2
    peak = first + np.argmax(response[:, first : first + _LOOK_SAMPLES], axis=-1)
    before, at, after = (np.take_along_axis(response, peak[:, None] + i, axis=-1)[:, 0] for i in (-1, 0, 1))
    return peak + 0.5 * (before - after) / np.minimum(before - 2 * at + after, -1e-30)

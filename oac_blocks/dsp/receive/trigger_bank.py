# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare what the trigger search needs for a set of frequencies: filters, waveforms and a fine grid around each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp.phasor import phasors
from oac_blocks.dsp.waveform.trigger import SEGMENT_SAMPLES, SEGMENTS, segment, trigger

FFT_SIZE = 1024
ROW_SAMPLES = FFT_SIZE - SEGMENT_SAMPLES + 1  # correlations with a segment that one FFT gives
GATE_SPAN = (SEGMENTS - 1) * SEGMENT_SAMPLES  # samples of later correlations that the gate at a sample needs
# Shifts of the whole waveform in samples; at two samples per chip, half a sample of offset costs 0.5 dB.
SHIFTS_SAMPLES = (0.0, 0.5)
_PIECE_SAMPLES = 14  # samples in a piece of the whole waveform, short enough to add up coherently on the fine grid
# Rad/sample between two fine frequencies; a waveform of 280 samples loses at most 0.7 dB between them.
_FINE_STEP_RAD = 0.01


@cache
def _shifted_trigger() -> npt.NDArray[np.complex64]:
    """Return the trigger of unit energy, (shifts, 280), each delayed by a fraction of a sample."""
    turns = np.exp(-2j * np.pi * scipy.fft.fftfreq(len(trigger())) * np.array(SHIFTS_SAMPLES)[:, None])
    shifted = scipy.fft.ifft(scipy.fft.fft(trigger()) * turns, axis=-1)
    return (shifted / np.linalg.norm(shifted, axis=-1, keepdims=True)).astype(np.complex64)


@dataclass(frozen=True)
class Bank:
    """Frequencies to search: coarse ones for the gate, and a fine grid around each for the whole waveform."""

    coarse_rad: tuple[float, ...]
    fine_rad: npt.NDArray[np.float64]  # offsets from a coarse frequency
    filters: npt.NDArray[np.complex64]  # (coarse, FFT_SIZE): conjugate spectra of one segment of unit energy
    templates: npt.NDArray[np.complex64]  # (coarse, shifts, 280): conjugates of the whole waveform of unit energy
    steering: npt.NDArray[np.complex64]  # (pieces, fine): phasors of the fine frequencies

    @classmethod
    def of(cls, coarse_rad: tuple[float, ...], fine_steps: int) -> Bank:
        """Return the bank of these frequencies with this many fine steps on both sides of each."""
        offsets = np.array(coarse_rad)
        length = len(trigger())
        pattern = segment() / np.linalg.norm(segment()) * phasors(offsets, SEGMENT_SAMPLES)
        whole = _shifted_trigger() * phasors(offsets, length)[:, None, :]
        fine = _FINE_STEP_RAD * np.arange(-fine_steps, fine_steps + 1)
        middles = _PIECE_SAMPLES * np.arange(length // _PIECE_SAMPLES)
        return cls(
            coarse_rad,
            fine,
            np.conj(scipy.fft.fft(pattern, FFT_SIZE, axis=-1, norm="forward")).astype(np.complex64),
            np.conj(whole),
            np.exp(-1j * middles[:, None] * fine).astype(np.complex64),
        )

    @cached_property
    def hypotheses(self) -> int:
        """Return the number of distinct frequencies and shifts; the fine grids of neighbours overlap."""
        distinct = np.unique(np.rint(np.add.outer(self.coarse_rad, self.fine_rad) / (0.1 * _FINE_STEP_RAD)))
        return len(distinct) * len(SHIFTS_SAMPLES)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Search a span of samples for places at which a trigger may begin, in compiled loops that release Python's lock."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: settings do without them

from oac_blocks.dsp.receive import trigger_kernels
from oac_blocks.dsp.receive.detection import ENERGY_FLOOR, trigger_threshold
from oac_blocks.dsp.receive.trigger_bank import FFT_SIZE, GATE_SPAN, ROW_SAMPLES, Bank
from oac_blocks.dsp.waveform.trigger import EDGE_SAMPLES, SEGMENT_SAMPLES, trigger

_MOST_OPEN = 1 / 32  # largest share of a span's samples that pass the gate: a strong carrier would open it all the time
# Largest power of a sample; beyond it sums overflow float32, and no radio delivers such samples.
_LARGEST_POWER = np.float32(1e30)
_ENERGY_SHARE, _TINY = np.float32(ENERGY_FLOOR), np.finfo(np.float32).tiny


class Places(NamedTuple):
    """Places that pass the gate and the whole waveform, in order of time; one array for each of these."""

    sample: npt.NDArray[np.int64]  # index in the samples, of the first segment
    strength: npt.NDArray[np.float32]  # correlation of the whole waveform, 0 to 1
    metric: npt.NDArray[np.float32]  # mean correlation of the four segments, 0 to 1
    shift: npt.NDArray[np.int64]  # number of the shift
    fine: npt.NDArray[np.int64]  # number of the fine frequency
    coarse: npt.NDArray[np.int32]  # number of the coarse frequency


class TriggerGate:
    """The first two stages of the search, for spans of one length; it keeps the memory that they work in.

    Parameters
    ----------
    rows : int
        FFTs in a span, which has ``rows * ROW_SAMPLES - GATE_SPAN`` places.
    """

    def __init__(self, rows: int) -> None:
        single = rows * ROW_SAMPLES
        self._norm = np.empty(single + SEGMENT_SAMPLES - 1, np.float32)
        self._rows, self._product = np.empty((2, rows, FFT_SIZE), np.complex64)
        self._single = np.empty(single, np.float32)
        self._gates, self._best = np.empty(single - GATE_SPAN, np.float32), np.empty(single - GATE_SPAN, np.int32)
        self._opened = np.empty(len(self._gates), np.int64)
        self._most = math.ceil(_MOST_OPEN * len(self._gates))
        self.bad_samples = 0  # number of NaN, infinite or very large samples, which count as zeros

    def candidates(self, x: npt.NDArray[np.complex64], start: int, bank: Bank, false_alarm: float) -> Places:
        """Return the places from ``start`` on, where x reaches ``EDGE_SAMPLES`` beyond the samples of all gates."""
        opened = start + self._open(x[start : start + len(self._norm)], bank, false_alarm)
        # In noise the squared correlation with one waveform is Beta(1, L - 1); the frequencies enter by a union bound.
        least = 1 - (false_alarm / bank.hypotheses) ** (1 / (len(trigger()) - 1))
        share, found = np.empty(len(opened), np.float32), np.empty((len(opened), 3), np.int64)
        coarse = self._best[opened - start]
        count = 0
        if len(opened):
            count = trigger_kernels.whole_waveforms(
                x, opened - EDGE_SAMPLES, coarse, bank.templates, bank.steering, np.float32(least), share, found
            )
        which, shift, fine = found[:count].T
        metric = self._gates[opened[which] - start]
        return Places(opened[which], np.sqrt(share[:count]), metric, shift, fine, coarse[which])

    def _open(self, x: npt.NDArray[np.complex64], bank: Bank, false_alarm: float) -> npt.NDArray[np.int64]:
        """Return where the gate opens; bad samples become zeros."""
        self.bad_samples += trigger_kernels.prepare(
            x.view(np.float32), _LARGEST_POWER, _ENERGY_SHARE, _TINY, self._norm, self._rows.view(np.float32)
        )
        # The gate must not lose what the whole waveform would find; the square root of the rate is more than enough.
        limit = np.float32(trigger_threshold(math.sqrt(false_alarm), len(bank.coarse_rad)))
        spectra = scipy.fft.fft(self._rows, axis=-1, overwrite_x=True).view(np.float32)
        product, count = self._product, 0
        for number, spectrum in enumerate(bank.filters):
            trigger_kernels.filtered(spectra, spectrum.view(np.float32), product.view(np.float32))
            product = scipy.fft.ifft(product, axis=-1, norm="forward", overwrite_x=True)
            count = trigger_kernels.add_gates(
                product.view(np.float32), self._norm, self._single, np.int32(number), self._gates, self._best, limit,
                self._opened,
            )  # fmt: skip
        opened = self._opened[:count]
        if count > self._most:
            opened = np.sort(opened[np.argpartition(self._gates[opened], -self._most)[-self._most :]])
        return opened

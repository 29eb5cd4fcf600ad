# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the server's trigger: a binary Golay-32 sequence, sent four times in BPSK at two samples per chip."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.waveform.sequences import golay_pair, root_raised_cosine

SEGMENTS = 4
CHIPS = 32
SAMPLES_PER_CHIP = 2
ROLL_OFF = 0.5
SEGMENT_SAMPLES = CHIPS * SAMPLES_PER_CHIP
EDGE_SAMPLES = 12  # samples of the pulse's tail before the first chip and after the last


@lru_cache(maxsize=1)
def trigger() -> npt.NDArray[np.complex64]:
    """Return the read-only trigger of mean power 1: 4 * 64 samples and the tails of the pulses."""
    chips = np.zeros(SEGMENTS * SEGMENT_SAMPLES - 1)
    chips[::SAMPLES_PER_CHIP] = np.tile(golay_pair(CHIPS)[0], SEGMENTS)
    pulse = root_raised_cosine(SAMPLES_PER_CHIP, ROLL_OFF, EDGE_SAMPLES // SAMPLES_PER_CHIP)
    shaped = np.append(np.convolve(chips, pulse), 0.0)
    waveform = (shaped / np.sqrt(np.mean(shaped**2))).astype(np.complex64)
    waveform.flags.writeable = False
    return waveform


@lru_cache(maxsize=1)
def segment() -> npt.NDArray[np.complex64]:
    """Return one period from the trigger's middle; the four segments begin ``EDGE_SAMPLES`` into the waveform."""
    start = EDGE_SAMPLES + SEGMENT_SAMPLES
    return trigger()[start : start + SEGMENT_SAMPLES]

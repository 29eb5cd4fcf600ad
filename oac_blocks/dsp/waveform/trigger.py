# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's call: a binary Golay-32 sequence four times over, BPSK, two samples a chip, RRC pulses."""

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
EDGE_SAMPLES = 12  # the pulse's tail before the first chip and after the last


@lru_cache(maxsize=1)
def trigger() -> npt.NDArray[np.complex64]:
    """The call, 4 * 64 samples and the pulses' tails, of mean power 1; read-only."""
    chips = np.zeros(SEGMENTS * SEGMENT_SAMPLES - 1)
    chips[::SAMPLES_PER_CHIP] = np.tile(golay_pair(CHIPS)[0], SEGMENTS)
    pulse = root_raised_cosine(SAMPLES_PER_CHIP, ROLL_OFF, EDGE_SAMPLES // SAMPLES_PER_CHIP)
    shaped = np.append(np.convolve(chips, pulse), 0.0)
    waveform = (shaped / np.sqrt(np.mean(shaped**2))).astype(np.complex64)
    waveform.flags.writeable = False
    return waveform


@lru_cache(maxsize=1)
def segment() -> npt.NDArray[np.complex64]:
    """One period of the call, as it is in its middle; the four segments begin ``EDGE_SAMPLES`` into the waveform."""
    start = EDGE_SAMPLES + SEGMENT_SAMPLES
    return trigger()[start : start + SEGMENT_SAMPLES]

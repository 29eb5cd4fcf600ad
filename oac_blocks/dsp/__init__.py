# SPDX-License-Identifier: GPL-3.0-or-later
"""The maths on arrays, numpy and scipy alone. Whole bursts in, whole bursts out, complex64 and float32.

Conventions: spectra are fftshifted, DC in the middle; transforms are unitary; randomness is an argument; times are in
samples of the receiver, frequencies in rad/sample or Hz as the name says.
"""

from oac_blocks.dsp import bounds, channel, preamble
from oac_blocks.dsp.waveform import analog, frame, fsk_mv, ofdm
from oac_blocks.dsp.waveform.numerology import Numerology

__all__ = ["Numerology", "analog", "bounds", "channel", "frame", "fsk_mv", "ofdm", "preamble"]

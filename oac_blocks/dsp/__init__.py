# SPDX-License-Identifier: GPL-3.0-or-later
"""Signal processing on arrays, with numpy and scipy alone.

Functions take and return whole bursts in complex64 or float32. Spectra are fftshifted, with DC in the middle.
Transforms are unitary. Random numbers come from a generator that the caller passes. Times are in samples of the
receiver; the name of a frequency says whether it is in rad/sample or in Hz.
"""

from oac_blocks.dsp import bounds, channel, preamble
from oac_blocks.dsp.waveform import analog, energy, frame, fsk_mv, ofdm
from oac_blocks.dsp.waveform.numerology import Numerology

__all__ = ["Numerology", "analog", "bounds", "channel", "energy", "frame", "fsk_mv", "ofdm", "preamble"]

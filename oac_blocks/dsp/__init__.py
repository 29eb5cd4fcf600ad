# SPDX-License-Identifier: GPL-3.0-or-later
"""Signal processing on arrays, with numpy and scipy alone.

Functions take and return whole bursts in complex64 or float32. Spectra are fftshifted, with DC in the middle.
Transforms are unitary. Random numbers come from a generator that the caller passes. Times are in samples of the
receiver; the name of a frequency says whether it is in rad/sample or in Hz.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oac_blocks.dsp import bounds as bounds
    from oac_blocks.dsp import channel as channel
    from oac_blocks.dsp import preamble as preamble
    from oac_blocks.dsp.waveform import analog as analog
    from oac_blocks.dsp.waveform import energy as energy
    from oac_blocks.dsp.waveform import frame as frame
    from oac_blocks.dsp.waveform import fsk_mv as fsk_mv
    from oac_blocks.dsp.waveform import ofdm as ofdm
    from oac_blocks.dsp.waveform.numerology import Numerology as Numerology

# Names are imported when they are first used: settings need the numerology alone, and scipy takes a tenth of a second.
_OF_WAVEFORM = ("analog", "energy", "frame", "fsk_mv", "ofdm")
_OWN = ("bounds", "channel", "preamble")
__all__ = ["Numerology", "analog", "bounds", "channel", "energy", "frame", "fsk_mv", "ofdm", "preamble"]


def __getattr__(name: str) -> Any:
    if name in _OWN:
        return import_module(f"oac_blocks.dsp.{name}")
    if name in _OF_WAVEFORM:
        return import_module(f"oac_blocks.dsp.waveform.{name}")
    if name == "Numerology":
        from oac_blocks.dsp.waveform.numerology import Numerology

        return Numerology
    raise AttributeError(f"module 'oac_blocks.dsp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

# SPDX-License-Identifier: GPL-3.0-or-later
"""A receiver's noise and converter for streams: as ``Receiver.receive``, but quicker, and however the stream is cut.

Gaussian noise by Box and Muller's method: a 64-bit word makes one complex sample, half of it the radius and half the
angle. In arrays of float32 that takes a third of the time that numpy's own normal variates take, and word n belongs to
sample n. The largest amplitude that it makes is 4.8 times the noise's RMS, which one in 9e9 samples would exceed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp import noise
from oac_blocks.dsp.channel import Receiver
from oac_blocks.dsp.resampling import HOP

Samples = npt.NDArray[np.complex64]
_PIECE = 8 * HOP  # its temporaries stay in the cache


class FrontEnd:
    """A receiver with the state of its noise."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._rng = np.random.default_rng(seed)
        # Rows of one array would do, but numpy's sine takes ten times as long into memory next to its argument.
        self._radius, self._angle, self._part = (np.empty(_PIECE, np.float32) for _ in range(3))

    def receive(self, x: Samples, receiver: Receiver) -> None:
        """What the receiver makes of x (blocks of HOP samples), in place."""
        if receiver.snr_db is not None and receiver.noise_alpha == 2:
            self.add_gaussian(x, receiver.noise_power())
        elif receiver.snr_db is not None:
            # Block by block: the order of several draws must not depend on how the stream is cut.
            for block in x.reshape(-1, HOP):
                block += noise.complex_alpha_stable(HOP, receiver.noise_alpha, receiver.noise_power(), self._rng)
        if receiver.adc_bits is not None:
            x[:] = noise.quantise(x, receiver.adc_bits, receiver.adc_full_scale)

    def add_gaussian(self, x: Samples, power: float) -> None:
        """Add circular Gaussian noise of this variance a complex sample."""
        for start in range(0, len(x), _PIECE):
            parts = x[start : start + _PIECE].view(np.float32).reshape(-1, 2)
            radius, angle, part = (array[: len(parts)] for array in (self._radius, self._angle, self._part))
            words = self._rng.bit_generator.random_raw(len(parts)).view(np.uint32).reshape(-1, 2)
            np.multiply(words[:, 0], np.float32(2**-32), out=radius, dtype=np.float32, casting="unsafe")
            radius += np.float32(2**-33)  # the logarithm of 0 is none
            np.log(radius, out=radius)
            radius *= np.float32(-power)
            np.sqrt(radius, out=radius)
            signed = words[:, 1].view(np.int32)
            np.multiply(signed, np.float32(np.pi / 2**31), out=angle, dtype=np.float32, casting="unsafe")
            parts[:, 0] += np.multiply(np.cos(angle, out=part), radius, out=part)
            parts[:, 1] += np.multiply(np.sin(angle, out=part), radius, out=part)

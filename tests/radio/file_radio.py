# SPDX-License-Identifier: GPL-3.0-or-later
"""A toy radio in one module: it receives the samples of a file and writes what it transmits to another one.

``file:PATH`` receives the complex64 samples of PATH and transmits into PATH with ``.sent`` behind its name. The end of
the file is the end of the radio.
"""

from pathlib import Path

import numpy as np

from oac_blocks.radio.base import Radio, RadioConfig, RadioError, RadioInfo, RadioStopped, Received
from oac_blocks.radio.limits import RadioLimits, Range
from oac_blocks.radio.registry import Driver

ANY_HZ = Range(1, 1, 1e9, "Hz")
ANY_DB = Range(0, 1, 0, "dB")
LIMITS = RadioLimits(ANY_HZ, ANY_HZ, ANY_HZ, ANY_HZ, ANY_HZ, lambda _: ANY_DB, ANY_DB)


class FileRadio(Radio):
    limits = LIMITS

    def __init__(self, uri, config, *, timeout_seconds=30.0, found=None):
        self._path = Path(uri.removeprefix("file:"))
        self.uri, self.found, self._input, self._output = uri, found, None, None
        self.configure(config)
        self.probe(uri)

    @classmethod
    def probe(cls, uri):
        if not Path(uri.removeprefix("file:")).is_file():
            raise RadioError(f"no file of samples at {uri}")
        return RadioInfo(uri, "file", "", "", None, 1.0, LIMITS.sample_rate_hz.low, LIMITS.sample_rate_hz.high)

    def describe(self):
        return self.probe(self.uri)

    def configure(self, config: RadioConfig):
        config.check(self.limits)
        self.config = config
        return config

    def start(self, stream):
        self._stream, self._position = stream, 0
        self._input = self._path.open("rb")
        self._output = self._path.with_name(self._path.name + ".sent").open("wb")
        self._output.write(bytes(8 * stream.primed_blocks * stream.block_samples))

    def receive(self, timeout_seconds=10.0):
        if self._input is None:
            raise RadioStopped(f"{self.uri} does not stream: call start first")
        samples = np.fromfile(self._input, np.complex64, self._stream.block_samples)
        if len(samples) < self._stream.block_samples:
            raise RadioError(f"{self.uri} ends after {self._position + len(samples)} samples")
        first, self._position = self._position, self._position + len(samples)
        return Received(samples, first)

    def transmit(self, samples, timeout_seconds=10.0):
        self._output.write(np.asarray(samples, np.complex64).tobytes())

    def stop(self):
        for file in (self._input, self._output):
            if file is not None:
                file.close()
        self._input = self._output = None

    def close(self):
        self.stop()


DRIVER = Driver("file", ("file",), LIMITS, FileRadio, "file:/tmp/samples.c64")

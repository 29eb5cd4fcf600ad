# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the parameters of the OFDM waveform and check them once.

Spectra are fftshifted, with DC in the middle. A *grid* holds the active subcarriers alone, lowest frequency first.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import integer, real, require


@dataclass(frozen=True)
class Numerology:
    """Parameters of the OFDM waveform.

    The defaults are those of the published prototype: 192 of 256 subcarriers are active at 20 Msps, and the cyclic
    prefix has 64 samples.
    """

    sample_rate_hz: float = 20e6
    fft_size: int = 256
    cp_samples: int = 64
    active_subcarriers: int = 192
    dc_nulls: int = 8

    def __post_init__(self) -> None:
        real("sample_rate_hz", self.sample_rate_hz, 0.0, open_low=True)
        integer("fft_size", self.fft_size, 8, 1 << 20)
        require(self.fft_size % 2 == 0, "fft_size", self.fft_size, "even")
        integer("cp_samples", self.cp_samples, 0)
        limit = f"at most fft_size = {self.fft_size} (the prefix is a copy of the symbol's end)"
        require(self.cp_samples <= self.fft_size, "cp_samples", self.cp_samples, limit)
        integer("active_subcarriers", self.active_subcarriers, 4)
        whole_pairs = "a multiple of 4 (whole pairs of subcarriers on each side of DC)"
        require(self.active_subcarriers % 4 == 0, "active_subcarriers", self.active_subcarriers, whole_pairs)
        integer("dc_nulls", self.dc_nulls, 0)
        require(self.dc_nulls % 2 == 0, "dc_nulls", self.dc_nulls, "even")
        used = self.active_subcarriers + self.dc_nulls
        room = f"at most fft_size = {self.fft_size}"
        require(used <= self.fft_size, "active_subcarriers + dc_nulls", used, room)

    @property
    def symbol_samples(self) -> int:
        """Return the length of a symbol in samples, prefix included."""
        return self.cp_samples + self.fft_size

    @property
    def symbol_seconds(self) -> float:
        """Return the length of a symbol in seconds, prefix included."""
        return self.symbol_samples / self.sample_rate_hz

    @property
    def votes_per_symbol(self) -> int:
        """Return the number of votes in a symbol; FSK-MV spends two adjacent subcarriers on each vote."""
        return self.active_subcarriers // 2

    @property
    def entries_per_symbol(self) -> int:
        """Return the number of entries in a symbol; analog mode puts two real entries on each subcarrier."""
        return 2 * self.active_subcarriers

    @property
    def subcarrier_spacing_hz(self) -> float:
        """Return the distance of two subcarriers in Hz."""
        return self.sample_rate_hz / self.fft_size

    def active_bins(self) -> npt.NDArray[np.int64]:
        """Return the positions of the active subcarriers in an fftshifted spectrum of ``fft_size`` bins, ascending."""
        half, first_right = self.active_subcarriers // 2, (self.fft_size + self.dc_nulls) // 2
        first_left = first_right - self.dc_nulls - half
        return np.r_[first_left : first_left + half, first_right : first_right + half].astype(np.int64)

    def subcarrier_frequencies(self) -> npt.NDArray[np.float64]:
        """Return the frequencies of the active subcarriers in cycles per sample, ascending."""
        return (self.active_bins() - self.fft_size // 2) / self.fft_size

    def to_dict(self) -> dict[str, float | int]:
        """Return the parameters by name."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Numerology:
        """Return the numerology with these values; raise ``ValueError`` for an unknown key."""
        names = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in names:
                near = difflib.get_close_matches(str(key), names, 1, 0.0)[0]
                raise ValueError(
                    f"numerology key must be one of {', '.join(names)}, got {key!r}; did you mean {near!r}?"
                )
        return cls(**values)

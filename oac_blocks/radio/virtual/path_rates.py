# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of rates inside an AD9361: from its clock through converter, half-band filters and FIR to the samples."""

from __future__ import annotations

from dataclasses import dataclass

_HALF_BANDS = ((3, 2, 2), (2, 2, 2), (3, 2, 1), (2, 2, 1), (3, 1, 1), (2, 1, 1), (1, 1, 1))  # third, second, first
_USUAL_CONVERTER_HZ = 61.44e6
_FASTEST_CONVERTER_HZ = 320e6
_LEAST_CLOCK_HZ = 715e6


@dataclass(frozen=True)
class PathRates:
    clock_hz: int
    converter_hz: int
    third_hz: int
    second_hz: int
    fir_hz: int
    sample_hz: int

    def text(self, converter: str, stage: str, samples: str) -> str:
        """As the driver prints it, with the names of one direction."""
        return (
            f"BBPLL:{self.clock_hz} {converter}:{self.converter_hz} {stage}2:{self.third_hz} "
            f"{stage}1:{self.second_hz} {stage}F:{self.fir_hz} {samples}:{self.sample_hz}"
        )

    @property
    def most_taps(self) -> int:
        """The FIR computes 16 taps in a cycle of the converter's clock, and 128 at most."""
        return min(128, 16 * (self.converter_hz // self.sample_hz))


def path_rates(sample_rate_hz: int, fir_factor: int) -> PathRates:
    """Rates for a FIR that changes the rate by ``fir_factor`` (1 if it is off)."""
    fir = sample_rate_hz * fir_factor
    third, second, first = _half_bands(fir, 8 * sample_rate_hz if fir_factor > 1 else 0)
    after_first, after_second = fir * first, fir * first * second
    converter = clock = after_second * third
    while clock < _LEAST_CLOCK_HZ:
        clock *= 2
    return PathRates(clock, converter, after_second, after_first, fir, sample_rate_hz)


def _half_bands(fir_hz: int, least_hz: int) -> tuple[int, int, int]:
    """The usual converter rate if it leaves the FIR time for 128 taps, or else the fastest."""
    for bands in _HALF_BANDS:
        if least_hz <= fir_hz * bands[0] * bands[1] * bands[2] <= _USUAL_CONVERTER_HZ:
            return bands
    fast = [bands for bands in _HALF_BANDS if fir_hz * bands[0] * bands[1] * bands[2] <= _FASTEST_CONVERTER_HZ]
    return fast[0] if least_hz and fast else _HALF_BANDS[-1]

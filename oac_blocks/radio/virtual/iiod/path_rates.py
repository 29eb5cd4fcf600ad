# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of rates inside an AD936x: from its clock through converter, half-band filters and FIR to the samples.

As the Linux driver's ``ad9361_calculate_rf_clock_chain`` chooses it: the converter runs at a multiple of the FIR's
rate, and the transmitter's at the half of the receiver's where that is too fast for it.
"""

from __future__ import annotations

from dataclasses import dataclass

# Rate steps from the converter to the FIR (third, second and first half-band filter), in the driver's order.
_HALF_BANDS = ((3, 2, 2), (2, 2, 2), (3, 1, 2), (2, 2, 1), (3, 1, 1), (2, 1, 1), (1, 1, 1))
_HIGHEST_OSR, _NOMINAL = 0, 1  # entries at which the driver's rate governors begin
_ADC_HZ = (24.999e6, 640e6)  # range of the ADC's clock; the driver rounds the slowest sample rate down
_FASTEST_DAC_HZ = 320e6
_HIGHEST_CLOCK_HZ = 1430e6
_LARGEST_CLOCK_DIVIDER = 64


@dataclass(frozen=True)
class PathRates:
    """The rates of one direction."""

    clock_hz: int
    converter_hz: int
    third_hz: int
    second_hz: int
    fir_hz: int
    sample_hz: int

    def text(self, converter: str, stage: str, samples: str) -> str:
        """Return the rates as the driver prints them, with the names of one direction."""
        return (
            f"BBPLL:{self.clock_hz} {converter}:{self.converter_hz} {stage}2:{self.third_hz} "
            f"{stage}1:{self.second_hz} {stage}F:{self.fir_hz} {samples}:{self.sample_hz}"
        )


@dataclass(frozen=True)
class ChipRates:
    rx: PathRates
    tx: PathRates

    @property
    def most_taps(self) -> int:
        """Return the most taps of both FIRs: 16 in a cycle of the DAC's clock, or of half the ADC's; 128 at most."""
        rx = self.rx.converter_hz // (1 if self.rx.converter_hz == self.rx.third_hz else 2)
        cycles = min(rx // self.rx.sample_hz, self.tx.converter_hz // self.tx.sample_hz)
        return min(128, 16 * cycles)


def path_rates(sample_rate_hz: int, fir_factor: int, highest_osr: bool = False) -> ChipRates:
    """Return the rates for a FIR that changes the rate by ``fir_factor`` (1 if it is off).

    ``highest_osr`` is the governor that prefers the fastest converter.
    """
    fir = sample_rate_hz * fir_factor
    first = _HIGHEST_OSR if highest_osr else _NOMINAL
    # A rate that is too slow for the nominal choice takes the higher one.
    order = [*range(first, len(_HALF_BANDS)), *range(first)]
    rx_index, tx_index = next((i, tx) for i in order if (tx := _transmitters(i, fir)) is not None)
    adc, dac = fir * _factor(rx_index), fir * _factor(tx_index)
    divider = _LARGEST_CLOCK_DIVIDER
    while adc * divider > _HIGHEST_CLOCK_HZ:
        divider //= 2
    clock = adc * divider
    return ChipRates(
        _chain(clock, adc, _HALF_BANDS[rx_index], fir, sample_rate_hz),
        _chain(clock, dac, _HALF_BANDS[tx_index], fir, sample_rate_hz),
    )


def _transmitters(index: int, fir_hz: int) -> int | None:
    """Return the transmitter's half-band filters for these of the receiver, or None if there are none."""
    adc = fir_hz * _factor(index)
    if not _ADC_HZ[0] <= adc <= _ADC_HZ[1]:
        return None
    dac = adc if adc <= _FASTEST_DAC_HZ else adc // 2
    return next((i for i in range(len(_HALF_BANDS)) if fir_hz * _factor(i) == dac), None)


def _factor(index: int) -> int:
    third, second, first = _HALF_BANDS[index]
    return third * second * first


def _chain(clock: int, converter: int, half_bands: tuple[int, int, int], fir: int, sample: int) -> PathRates:
    third, second, _ = half_bands
    return PathRates(clock, converter, converter // third, converter // third // second, fir, sample)

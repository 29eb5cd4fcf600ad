# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a radio as plain numbers: attributes write them, and the air reads them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tone:
    """One of the transmitter's four tone generators, two for I and two for Q."""

    frequency_hz: float = 0.0
    phase_degrees: float = 0.0
    scale: float = 0.0


@dataclass
class RadioSettings:
    """The settings; the defaults are those of a Pluto after it has started."""

    sample_rate_hz: int = 30_720_000
    rx_decimation: int = 1  # factor of the filter in the FPGA behind the chip, 1 or 8
    tx_interpolation: int = 1
    rx_lo_hz: int = 2_400_000_000
    tx_lo_hz: int = 2_450_000_000
    rx_lo_on: bool = True
    tx_lo_on: bool = True
    rx_bandwidth_hz: int = 18_000_000
    tx_bandwidth_hz: int = 18_000_000
    gain_mode: str = "slow_attack"
    rx_gain_db: int = 71
    tx_gain_db: float = -10.0
    loopback: int = 0
    xo_hz: int = 40_000_000
    ensm_mode: str = "fdd"
    tones_on: bool = True
    tones: list[Tone] = field(default_factory=lambda: [Tone() for _ in range(4)])

    @property
    def rx_stream_hz(self) -> float:
        return self.sample_rate_hz / self.rx_decimation

    @property
    def tx_stream_hz(self) -> float:
        return self.sample_rate_hz / self.tx_interpolation

    @property
    def receives(self) -> bool:
        return self.rx_lo_on and self.ensm_mode in ("fdd", "rx", "pinctrl", "pinctrl_fdd_indep")

    @property
    def transmits(self) -> bool:
        return self.tx_lo_on and self.ensm_mode in ("fdd", "tx", "pinctrl", "pinctrl_fdd_indep")

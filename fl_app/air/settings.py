# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that can be set about an air, checked once and then trusted. docs/air.md explains each setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fl_app.air.base import Mode
from oac_blocks.dsp.analog import Inversion
from oac_blocks.dsp.channel import MAX_PPM
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.fading import FADINGS, PROFILES, Fading
from oac_blocks.dsp.numerology import Numerology

SIMULATED_NAMES = ("ideal", "fading", "waveform")  # a round depends on its number alone
AIR_NAMES = (*SIMULATED_NAMES, "gnuradio", "pluto")

Profile = Literal["flat", "indoor", "epa", "eva", "etu"]
Calibration = Literal["assumed", "loop", "off"]


@dataclass(frozen=True)
class AirSettings:
    """The defaults are those of ``make train``: 20 dB, Rayleigh fading, 20 ppm clocks, the published numerology."""

    name: str = "waveform"
    mode: Mode = "onebit"

    # How loud: one client's unit subcarrier over the noise of a subcarrier, or (analog) the noise on each entry of xi.
    snr_db: float | None = 20.0  # None: no noise
    noise_std: float | None = None  # in units of gradient entries; wins over snr_db
    noise_alpha: float = 2.0  # 2 is Gaussian; below, alpha-stable with heavy tails
    clip_level: float | None = None  # received entries are cut at this multiple of their median magnitude
    limiter_level: float | None = None  # waveform: received samples are cut at this multiple of theirs

    # The channel
    fading: Fading = "rayleigh"
    rician_k_db: float = 10.0
    profile: Profile = "flat"

    # The radios' clocks and what calibration leaves
    clock_ppm: float = 20.0  # clients are spread evenly from -clock_ppm to +clock_ppm
    clock_walk_ppm: float = 0.01  # standard deviation of the rate's walk after one second; a round counts as one
    carrier_hz: float = 2.4e9  # the local oscillator hangs on the same crystal, so its error follows from the clock's
    cfo_correction: bool = True  # the client takes out what it measured on the trigger
    cfo_residual_hz: float = 10.0  # standard deviation of what is left after that
    calibration: Calibration = (
        "assumed"  # waveform: or "loop", the closed loop on virtual radios, or "off", none at all
    )
    timing_sigma_samples: float = 0.5  # "assumed": standard deviation of a burst's arrival
    adc_bits: int | None = 12

    # The waveform
    repeats: int = 1  # onebit: pairs of subcarriers for each vote
    groups: int = 4  # payload groups in a burst, each behind a sync symbol
    max_burst_symbols: int = 4096
    sample_rate_hz: float = 20e6
    fft_size: int = 256
    cp_samples: int = 64
    active_subcarriers: int = 192
    dc_nulls: int = 8

    # Analog: what a client does about its channel
    inversion: Inversion = "phase"
    least_magnitude: float = 0.1  # truncated inversion is silent below
    pilot_symbols: int = 4
    pilot_timing_sigma_samples: float = 0.05  # the part of the timing error that the pilot does not show

    def __post_init__(self) -> None:
        _one_of("name", self.name, AIR_NAMES)
        _one_of("mode", self.mode, get_args(Mode))
        _one_of("fading", self.fading, FADINGS)
        _one_of("profile", self.profile, tuple(PROFILES))
        _one_of("inversion", self.inversion, get_args(Inversion))
        _one_of("calibration", self.calibration, get_args(Calibration))
        self._check_numbers()
        self.numerology()
        if self.name == "pluto":
            require(self.mode == "onebit", "mode", repr(self.mode), f"'onebit' for the air {self.name!r}")
        if self.name == "gnuradio" and self.mode == "analog":
            allowed = "0 for the air 'gnuradio' in analog mode, whose clients share the server's clock"
            require(self.clock_ppm == 0, "clock_ppm", self.clock_ppm, allowed)
        if self.mode == "onebit":
            require(self.noise_std is None, "noise_std", self.noise_std, "left out in onebit mode (set snr_db)")
        else:
            require(self.repeats == 1, "repeats", self.repeats, "1 in analog mode")

    def _check_numbers(self) -> None:
        for name, low, high in (
            ("snr_db", -100.0, 200.0),
            ("noise_std", 0.0, 1e6),
            ("rician_k_db", -100.0, 100.0),
            ("clock_ppm", 0.0, MAX_PPM),
            ("clock_walk_ppm", 0.0, MAX_PPM),
            ("carrier_hz", 0.0, 1e12),
            ("cfo_residual_hz", 0.0, 1e9),
            ("timing_sigma_samples", 0.0, 1e6),
            ("pilot_timing_sigma_samples", 0.0, 1e6),
        ):
            value = getattr(self, name)
            if value is not None or name not in ("snr_db", "noise_std"):
                real(name, value, low, high)
        real("noise_alpha", self.noise_alpha, 0.5, 2.0)
        for name in ("clip_level", "limiter_level"):
            if getattr(self, name) is not None:
                real(name, getattr(self, name), 1.0)
        real("least_magnitude", self.least_magnitude, 0.0, 10.0, open_low=True)
        integer("repeats", self.repeats, 1, 64)
        integer("groups", self.groups, 1, 1024)
        integer("max_burst_symbols", self.max_burst_symbols, self.groups + 1)
        integer("pilot_symbols", self.pilot_symbols, 1, 1024)
        if self.adc_bits is not None:
            integer("adc_bits", self.adc_bits, 1, 24)

    def numerology(self) -> Numerology:
        return Numerology(self.sample_rate_hz, self.fft_size, self.cp_samples, self.active_subcarriers, self.dc_nulls)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    require(value in allowed, name, repr(value), f"one of {', '.join(allowed)}")

# SPDX-License-Identifier: GPL-3.0-or-later
"""The section [air] of a config: everything that can be set about an air. docs/air.md explains each setting."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fl_app.air.registry import AIRS
from oac_blocks.bench.config import WaveformSection
from oac_blocks.bench.section import Section, known_name, optional
from oac_blocks.dsp.channel.fading import Fading
from oac_blocks.dsp.checks import MAX_PPM, integer, require
from oac_blocks.dsp.waveform.analog import Inversion
from oac_blocks.dsp.waveform.schemes import Scheme, name_of_scheme, scheme_named
from oac_blocks.dsp.waveform.schemes.registry import SCHEMES
from oac_blocks.plugins import PluginError

Profile = Literal["flat", "indoor", "epa", "eva", "etu"]
Calibration = Literal["assumed", "loop", "off"]

TURNAROUND_SECONDS = 0.02  # seconds from the server's trigger to the clients' answers, in simulations


class _Choice(Section):
    """The first two keys of [air]: a base class of its own, since pydantic lists the keys of base classes first."""

    name: str = Field(
        "waveform",
        description="what carries the gradients: ideal, fading, waveform, gnuradio, pluto, digital, an installed name "
        "or package.module:factory",
    )
    mode: str = Field(
        "onebit",
        description="the scheme, also called `scheme`: onebit (votes on signs), energy (energies of tones), analog "
        "(amplitudes), an installed name or package.module:Scheme",
    )


class AirSettings(WaveformSection, _Choice):
    """The defaults are those of ``make train``: 20 dB, Rayleigh fading, 20 ppm clocks, the published numerology.

    The waveform's keys are in `oac_blocks.bench.config`: radios share them.
    """

    max_burst_symbols: int = Field(
        4096, ge=2, description="OFDM symbols in a burst, sync symbols included; more than groups"
    )

    # The noise level: the SNR of one client's unit subcarrier, or (analog) the noise on each entry of xi.
    snr_db: float | None = optional(
        20.0,
        ge=-100.0,
        le=200.0,
        description="dB, of one client on one subcarrier; analog: of a gradient entry",
        none="no noise",
    )
    noise_std: float | None = optional(
        None,
        ge=0.0,
        le=1e6,
        description="analog: noise on the clients' sum, in units of gradient entries",
        none="as snr_db says",
    )
    noise_alpha: float = Field(
        2.0, ge=0.5, le=2.0, description="2: Gaussian noise; below: alpha-stable noise with heavy tails"
    )
    clip_level: float | None = optional(
        None,
        ge=1.0,
        description="received entries are cut at this multiple of their median magnitude",
        none="not cut",
    )
    limiter_level: float | None = optional(
        None,
        ge=1.0,
        description="waveform: received samples are cut at this multiple of their median magnitude",
        none="not cut",
    )

    tx_power_w: float = Field(
        0.1, ge=0.0, le=1e6, description="W, mean power of a client while it transmits, for the energy in the figures"
    )

    # The channel
    fading: Fading = Field("rayleigh", description="how a client's amplitude is drawn in each round")
    rician_k_db: float = Field(
        10.0, ge=-100.0, le=100.0, description="dB, direct path over the rest; of the fading rician"
    )
    profile: Profile = Field("flat", description="delays of the propagation paths")

    # The radios' clocks and what calibration leaves
    clock_ppm: float = Field(
        20.0, ge=0.0, le=MAX_PPM, description="ppm; clients are spread evenly from -clock_ppm to +clock_ppm"
    )
    clock_walk_ppm: float = Field(
        0.01,
        ge=0.0,
        le=MAX_PPM,
        description="ppm, standard deviation of a clock's change in a second; a round counts as one second",
    )
    carrier_hz: float = Field(
        2.4e9,
        ge=0.0,
        le=1e12,
        description="Hz; the oscillator hangs on the sample clock's crystal, so its error follows from clock_ppm",
    )
    cfo_correction: bool = Field(
        True, description="a client removes the carrier frequency offset that it measures on the trigger"
    )
    cfo_residual_hz: float | None = optional(
        None,
        ge=0.0,
        le=1e9,
        description="Hz, standard deviation of the offset that is left after that",
        none="10 Hz; in analog mode what the pilot's Cramer-Rao bound and the crystal's walk leave",
    )
    calibration: Calibration = Field(
        "assumed",
        description="waveform: arrivals as timing_sigma_samples says, as the closed loop leaves them, or uncorrected",
    )
    timing_sigma_samples: float = Field(
        0.5, ge=0.0, le=1e6, description="samples, standard deviation of a burst's arrival; of the calibration assumed"
    )
    adc_bits: int | None = optional(
        12, ge=1, le=24, description="resolution of the server's converter, in bits", none="no quantisation"
    )

    # Analog: what a client does about its channel
    inversion: Inversion = Field(
        "phase", description="analog: a client removes its channel's phase alone, or its magnitude as well"
    )
    least_magnitude: float = Field(
        0.1,
        gt=0.0,
        le=10.0,
        description="analog: truncated inversion sends nothing where the channel's magnitude is below",
    )
    pilot_symbols: int = Field(
        16,
        ge=1,
        le=1024,
        description="analog: OFDM symbols of the server's pilot, on which a client measures channel and frequency",
    )
    pilot_snr_db: float | None = optional(
        30.0,
        ge=-100.0,
        le=200.0,
        description="analog: dB, of the server's pilot on one subcarrier at a client; 10 dB above snr_db's default, "
        "since a server on mains power transmits ten times the power of a client on a battery",
        none="no noise on the pilot",
    )
    pilot_age_seconds: float = Field(
        TURNAROUND_SECONDS,
        ge=0.0,
        le=1e3,
        description="analog: seconds from the pilot's middle to the burst, while the residual offset rotates the "
        "phase; the default is the turnaround of the calibration loop",
    )
    pilot_timing_sigma_samples: float = Field(
        0.05,
        ge=0.0,
        le=1e6,
        description="analog: samples, standard deviation of the timing error that the pilot does not show",
    )

    # Digital: what a client sends when it has the channel for itself
    bits_per_entry: int | None = optional(
        None,
        ge=1,
        le=32,
        description="digital: bits of a gradient entry; votes are sent as they are",
        none="8",
    )
    backoff_db: float = Field(
        0.0, ge=0.0, le=100.0, description="digital: dB of SNR that a real code loses against the Shannon rate"
    )

    args: dict[str, Any] = Field(
        default_factory=dict, description="arguments of an air of your own, as a table; see docs/plug-ins.md"
    )

    @model_validator(mode="before")
    @classmethod
    def _scheme_or_mode(cls, given: Any) -> Any:
        """Take the key `scheme` for `mode`: both name the scheme. A program may give a scheme, or its class."""
        if not isinstance(given, dict) or "scheme" not in given:
            return given
        rest = {key: value for key, value in given.items() if key != "scheme"}
        scheme = name_of_scheme(given["scheme"])
        if "mode" in rest and rest["mode"] != scheme:
            raise ValueError(f"scheme = {scheme!r} and mode = {rest['mode']!r} name the scheme twice: give one of them")
        return {**rest, "mode": scheme}

    @field_validator("name")
    @classmethod
    def _air_is_known(cls, name: str) -> str:
        return known_name(AIRS, name)

    @field_validator("mode")
    @classmethod
    def _scheme_is_known(cls, mode: str) -> str:
        mode = known_name(SCHEMES, mode)
        try:
            return scheme_named(mode).name
        except PluginError as error:
            raise ValueError(str(error)) from None

    @property
    def scheme(self) -> Scheme:
        """The scheme that ``mode`` names."""
        return scheme_named(self.mode)

    @model_validator(mode="after")
    def _keys_fit_each_other(self) -> Self:
        integer("max_burst_symbols", self.max_burst_symbols, self.groups + 1)
        if self.name == "pluto":
            require(
                not self.scheme.coherent, "mode", repr(self.mode), f"'onebit' or 'energy' for the air {self.name!r}"
            )
        if self.name == "gnuradio" and self.scheme.coherent:
            allowed = "0 for the air 'gnuradio' in analog mode, whose clients share the server's clock"
            require(self.clock_ppm == 0, "clock_ppm", self.clock_ppm, allowed)
        if self.name == "digital":
            self._check_digital()
        if not self.scheme.coherent:
            allowed = f"left out in {self.mode} mode (set snr_db)"
            require(self.noise_std is None, "noise_std", self.noise_std, allowed)
        if not self.scheme.repeatable:
            require(self.repeats == 1, "repeats", self.repeats, f"1 in {self.mode} mode")
        return self

    def _check_digital(self) -> None:
        """Refuse what has no meaning if the clients send one after the other at the Shannon rate."""
        of_air = "for the air 'digital'"
        require(self.snr_db is not None, "snr_db", None, f"a number {of_air}: without noise the rate is infinite")
        require(self.noise_std is None, "noise_std", self.noise_std, f"left out {of_air} (set snr_db)")
        require(
            self.noise_alpha == 2, "noise_alpha", self.noise_alpha, f"2 {of_air}: the rate is that of Gaussian noise"
        )
        require(self.repeats == 1, "repeats", self.repeats, f"1 {of_air}: every entry arrives")
        if self.scheme.dtype.kind in "iu":
            allowed = f"left out in {self.mode} mode: a vote has one bit, or two if the client abstains somewhere"
            require(self.bits_per_entry is None, "bits_per_entry", self.bits_per_entry, allowed)

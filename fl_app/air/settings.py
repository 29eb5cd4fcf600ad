# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that can be set about an air, checked once and then trusted. docs/air.md explains each setting."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, get_args

from fl_app.air.base import Mode
from oac_blocks.dsp.channel.fading import FADINGS, PROFILES, Fading
from oac_blocks.dsp.channel.multiple_access import MAX_PPM
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.waveform.analog import Inversion
from oac_blocks.dsp.waveform.numerology import Numerology

SIMULATED_NAMES = ("ideal", "fading", "waveform")  # a round depends on its number alone
AIR_NAMES = (*SIMULATED_NAMES, "gnuradio", "pluto")

Profile = Literal["flat", "indoor", "epa", "eva", "etu"]
Calibration = Literal["assumed", "loop", "off"]


class Check(Protocol):
    """Raises ValueError if a key's value is not allowed."""

    def __call__(self, name: str, value: Any) -> object: ...


def _key(default: Any, description: str, allowed: str, check: Check | None = None, *, none: str = "") -> Any:
    """A key of [air]: its comment in a config, and its check, say the same. `none`: what None ("none") stands for."""
    texts = [description, allowed, f'"none": {none}' if none else ""]
    comment = "; ".join(text for text in texts if text)
    return field(default=default, metadata={"comment": comment, "check": check, "optional": bool(none)})


def _number(
    default: float | None,
    description: str,
    low: float,
    high: float = math.inf,
    *,
    none: str = "",
    open_low: bool = False,
) -> Any:
    above = f"{'above' if open_low else 'at least'} {low:g}"
    most = above if math.isinf(high) else f"above {low:g}, at most {high:g}"
    allowed = most if open_low or math.isinf(high) else f"{low:g} to {high:g}"
    return _key(
        default, description, allowed, lambda name, value: real(name, value, low, high, open_low=open_low), none=none
    )


def _count(default: int | None, description: str, low: int, high: int | None = None, *, none: str = "") -> Any:
    allowed = f"at least {low}" if high is None else f"{low} to {high}"
    return _key(default, description, allowed, lambda name, value: integer(name, value, low, high), none=none)


def _choice(default: str, description: str, allowed: tuple[str, ...]) -> Any:
    names = ", ".join(allowed)
    return _key(
        default, description, names, lambda name, value: require(value in allowed, name, repr(value), f"one of {names}")
    )


@dataclass(frozen=True)
class AirSettings:
    """The defaults are those of ``make train``: 20 dB, Rayleigh fading, 20 ppm clocks, the published numerology."""

    name: str = _choice("waveform", "what carries the gradients", AIR_NAMES)
    mode: Mode = _choice("onebit", "votes on signs, or amplitudes", get_args(Mode))

    # How loud: one client's unit subcarrier over the noise of a subcarrier, or (analog) the noise on each entry of xi.
    snr_db: float | None = _number(
        20.0, "dB, of one client on one subcarrier; analog: of a gradient entry", -100.0, 200.0, none="no noise"
    )
    noise_std: float | None = _number(
        None, "analog: noise on the clients' sum, in units of gradient entries", 0.0, 1e6, none="as snr_db says"
    )
    noise_alpha: float = _number(2.0, "2: Gaussian noise; below: alpha-stable noise with heavy tails", 0.5, 2.0)
    clip_level: float | None = _number(
        None, "received entries are cut at this multiple of their median magnitude", 1.0, none="not cut"
    )
    limiter_level: float | None = _number(
        None, "waveform: received samples are cut at this multiple of their median magnitude", 1.0, none="not cut"
    )

    # The channel
    fading: Fading = _choice("rayleigh", "how a client's amplitude is drawn in each round", FADINGS)
    rician_k_db: float = _number(10.0, "dB, direct path over the rest; of the fading rician", -100.0, 100.0)
    profile: Profile = _choice("flat", "delays of the propagation paths", tuple(PROFILES))

    # The radios' clocks and what calibration leaves
    clock_ppm: float = _number(20.0, "ppm; clients are spread evenly from -clock_ppm to +clock_ppm", 0.0, MAX_PPM)
    clock_walk_ppm: float = _number(
        0.01, "ppm, standard deviation of a clock's change in a second; a round counts as one second", 0.0, MAX_PPM
    )
    carrier_hz: float = _number(
        2.4e9, "Hz; the oscillator hangs on the sample clock's crystal, so its error follows from clock_ppm", 0.0, 1e12
    )
    cfo_correction: bool = _key(
        True, "a client removes the carrier frequency offset that it measures on the trigger", "true or false"
    )
    cfo_residual_hz: float = _number(10.0, "Hz, standard deviation of the offset that is left after that", 0.0, 1e9)
    calibration: Calibration = _choice(
        "assumed",
        "waveform: arrivals as timing_sigma_samples says, as the closed loop leaves them, or uncorrected",
        get_args(Calibration),
    )
    timing_sigma_samples: float = _number(
        0.5, "samples, standard deviation of a burst's arrival; of the calibration assumed", 0.0, 1e6
    )
    adc_bits: int | None = _count(12, "resolution of the server's converter, in bits", 1, 24, none="no quantisation")

    # The waveform
    repeats: int = _count(1, "onebit: pairs of subcarriers for each vote", 1, 64)
    groups: int = _count(4, "payload groups in a burst, each behind a sync symbol", 1, 1024)
    max_burst_symbols: int = _count(4096, "OFDM symbols in a burst, sync symbols included; more than groups", 2)
    sample_rate_hz: float = _number(20e6, "samples a second", 0.0, open_low=True)
    fft_size: int = _count(256, "points of the FFT", 1)
    cp_samples: int = _count(64, "samples of the cyclic prefix; less than fft_size", 0)
    active_subcarriers: int = _count(192, "subcarriers with payload, an even number; with dc_nulls at most fft_size", 2)
    dc_nulls: int = _count(8, "empty subcarriers around DC, an even number", 0)

    # Analog: what a client does about its channel
    inversion: Inversion = _choice(
        "phase", "analog: a client removes its channel's phase alone, or its magnitude as well", get_args(Inversion)
    )
    least_magnitude: float = _number(
        0.1,
        "analog: truncated inversion sends nothing where the channel's magnitude is below",
        0.0,
        10.0,
        open_low=True,
    )
    pilot_symbols: int = _count(4, "analog: OFDM symbols of the server's pilot", 1, 1024)
    pilot_timing_sigma_samples: float = _number(
        0.05, "analog: samples, standard deviation of the timing error that the pilot does not show", 0.0, 1e6
    )

    def __post_init__(self) -> None:
        for key in fields(self):
            value, check = getattr(self, key.name), key.metadata["check"]
            if check is not None and not (value is None and key.metadata["optional"]):
                check(key.name, value)
        integer("max_burst_symbols", self.max_burst_symbols, self.groups + 1)
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

    def numerology(self) -> Numerology:
        return Numerology(self.sample_rate_hz, self.fft_size, self.cp_samples, self.active_subcarriers, self.dc_nulls)


OPTIONAL_KEYS = frozenset(key.name for key in fields(AirSettings) if key.metadata["optional"])


def explain_keys() -> dict[str, str]:
    """What each key is for, its unit, and which values it may have, in a line."""
    return {key.name: key.metadata["comment"] for key in fields(AirSettings)}

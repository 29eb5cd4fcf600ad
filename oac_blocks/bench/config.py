# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a config that concerns radios: the section [radios], and the waveform's keys in [air].

One file drives `fl_app`, `oac-calibrate` and the flowgraphs for Plutos. `fl_app` knows all of its sections and builds
on the two models here; this module reads these two sections alone.

    bench = load_bench("bench.toml")
    bench.waveform.numerology(), bench.radios.server
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from oac_blocks.bench import settings
from oac_blocks.bench.section import ConfigError, Section
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import AGREED
from oac_blocks.radio import registry
from oac_blocks.radio.base import RadioConfig

SIMULATED_RATE_HZ = 20e6  # samples a second, the default without radios: that of the published prototype
RATE = "sample_rate_hz"

Clock = Literal["wall", "lock-step"]
Transport = Literal["threads", "flowgraphs"]


class WaveformSection(Section):
    """The keys of [air] that all radios of a bench and the application must have alike."""

    SECTION: ClassVar[str] = "air"

    sample_rate_hz: float = Field(
        SIMULATED_RATE_HZ, gt=0.0, description="samples a second; with [radios] server the default is 2.5e6"
    )
    fft_size: int = Field(256, ge=1, description="points of the FFT")
    cp_samples: int = Field(64, ge=0, description="samples of the cyclic prefix; less than fft_size")
    active_subcarriers: int = Field(
        192, ge=2, description="subcarriers with payload, an even number; with dc_nulls at most fft_size"
    )
    dc_nulls: int = Field(8, ge=0, description="empty subcarriers around DC, an even number")
    repeats: int = Field(1, ge=1, le=64, description="onebit: pairs of subcarriers for each vote")
    groups: int = Field(4, ge=1, le=1024, description="payload groups in a burst, each behind a sync symbol")

    @model_validator(mode="after")
    def _is_a_numerology(self) -> Self:
        self.numerology()
        return self

    def numerology(self) -> Numerology:
        """Return the numbers of the OFDM waveform."""
        return Numerology(self.sample_rate_hz, self.fft_size, self.cp_samples, self.active_subcarriers, self.dc_nulls)

    def agreed(self) -> dict[str, float | int]:
        """Return the values by their names, as flowgraphs and messages carry them."""
        return {name: getattr(self, name) for name in AGREED}


class RadiosSection(Section):
    """Which radios a bench has, and what they are set to. docs/radios.md is the guide."""

    SECTION: ClassVar[str] = "radios"

    server: str = Field("", description="uri of the server's radio: ip:192.168.2.1, usb:1.2.5")
    clients: list[str] = Field([], description="uris, one for each client")
    transport: Transport = Field(
        "threads", description="all radios in one process, or a GNU Radio flowgraph for each (`fl_app up`)"
    )
    frequency_hz: float = Field(0.0, ge=0, description="Hz, one that you may transmit on; 0: nothing is transmitted")
    rx_gain_db: float = Field(settings.RX_GAIN_DB, description="dB, of all receivers; the radio's own range")
    tx_gain_db: float = Field(settings.TX_GAIN_DB, description="dB, of all transmitters; -89.75 to 0")
    crystal_ppm: float = Field(
        settings.CRYSTAL_PPM,
        ge=0,
        le=100,
        description="ppm, largest error of a radio's crystal; clients search offsets of up to twice as much",
    )
    clock: Clock = Field("wall", description="the clock that the radios run on; lock-step: of virtual radios that wait")
    tolerance_samples: float = Field(
        0.0, ge=0, le=16, description="clients must be heard within it before a run; 0: what the prefix bears"
    )
    align_rounds: int = Field(100, ge=1, description="rounds of the radios, until all clients must be aligned")
    patience_rounds: int = Field(300, ge=1, description="rounds of the radios without any votes, until the run ends")

    @property
    def uris(self) -> list[str]:
        """The server's radio and the clients' radios, in their order."""
        return [self.server, *self.clients]

    @property
    def is_named(self) -> bool:
        """Does the config name any radio?"""
        return any(self.uris)

    def fault(self, n: int, sample_rate_hz: float) -> str:
        """Return what is wrong with the radios for n clients at this rate, or an empty string."""
        if not self.server:
            return "server = '': the air pluto needs the uri of a radio, as in ip:192.168.2.1"
        if len(self.clients) != n or not all(self.clients):
            return f"clients = {self.clients}: there must be a uri for each of [clients] n = {n}"
        if len(set(self.uris)) < len(self.uris):
            return f"clients = {self.clients}: a radio is named twice; the server's and each client's is its own"
        if not self.frequency_hz:
            return "frequency_hz = 0: nothing is transmitted until you name a frequency that you may use"
        try:
            config = RadioConfig(sample_rate_hz, self.frequency_hz, self.frequency_hz, self.rx_gain_db, self.tx_gain_db)
            for uri in self.uris:
                registry.check_config(uri, config)
        except ValueError as error:
            return str(error).replace("rx_lo_hz", "frequency_hz").replace("tx_lo_hz", "frequency_hz")
        return ""


@dataclass(frozen=True)
class BenchConfig:
    """The radios of a bench and the waveform that they share."""

    waveform: WaveformSection = field(default_factory=lambda: WaveformSection(sample_rate_hz=settings.RADIO_RATE_HZ))
    radios: RadiosSection = field(default_factory=RadiosSection)
    scheme: str = "onebit"  # name of the scheme of the payload, [air] scheme or mode


def with_one_rate(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config's values with the sample rate in its one home, [air] sample_rate_hz.

    [radios] sample_rate_hz is another way to write it. Where a config names radios and no rate, the rate is that of
    radios, which is lower than the default for simulations.

    Raises
    ------
    ConfigError
        If both sections name a rate, and not the same one.
    """
    air, radios = tree.get("air", {}), tree.get("radios", {})
    if not isinstance(air, Mapping) or not isinstance(radios, Mapping):
        return dict(tree)  # what is wrong here is said when the sections are checked
    own, theirs = air.get(RATE), radios.get(RATE)
    is_named = bool(radios.get("server") or radios.get("clients"))
    # A config that was written in full when there were two rates names both. Then the rate of the section that was not
    # used has its default, and the other one holds.
    if theirs is None:
        rate = settings.RADIO_RATE_HZ if own is None and is_named else own
    elif own is None or own == theirs or (is_named and own == SIMULATED_RATE_HZ):
        rate = theirs
    elif not is_named and theirs == settings.RADIO_RATE_HZ:
        rate = own
    else:
        raise ConfigError(
            f"[air] {RATE} = {own!r} and [radios] {RATE} = {theirs!r}: there is one rate; leave out that of [radios]"
        )
    result = dict(tree)
    if rate is not None:
        result["air"] = {**air, RATE: rate}
    if theirs is not None:
        result["radios"] = {key: value for key, value in radios.items() if key != RATE}
    return result


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the values of a TOML file; ConfigError says why it cannot be read."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def load_bench(path: str | Path | None = None, **overrides: Any) -> BenchConfig:
    """Return the radios and the waveform of a config file.

    Parameters
    ----------
    path : str, Path or None
        The file. Sections and keys that do not concern radios are not looked at. None or "" stands for defaults.
    **overrides
        Values that replace those of the file, by their keys. None leaves a value as it is.

    Raises
    ------
    ConfigError
        If the file cannot be read, or a value is wrong.
    """
    tree = read_toml(path) if path else {}
    given = {key: value for key, value in overrides.items() if value is not None}
    try:
        tree = with_one_rate(tree)
        # The other keys of [air] are no concern of the radios.
        named = _part(tree, "air")
        air = {RATE: settings.RADIO_RATE_HZ, **_of(WaveformSection, named)}
        waveform = WaveformSection(**{**air, **_of(WaveformSection, given)})
        radios = RadiosSection(**{**_part(tree, "radios"), **_of(RadiosSection, given)})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from None
    return BenchConfig(waveform, radios, str(named.get("scheme", named.get("mode", BenchConfig.scheme))))


def _part(tree: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    part = tree.get(section, {})
    if not isinstance(part, Mapping):
        raise ConfigError(f"[{section}] must be a section, not {part!r}")
    return part


def _of(kind: type[Section], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in kind.model_fields}

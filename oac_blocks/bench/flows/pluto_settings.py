# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of one Pluto's flowgraph, for the program without a screen and for Companion. Imports no GNU Radio."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from oac_blocks.bench.config import load_bench
from oac_blocks.bench.settings import (
    AMPLITUDE,
    CRYSTAL_PPM,
    RADIO_RATE_HZ,
    RX_GAIN_DB,
    TRIGGER_AMPLITUDE,
    TX_GAIN_DB,
    burst_votes,
    max_cfo_rad,
)
from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.radio.registry import driver_for
from oac_blocks.record.metadata import Facts

SERVER = -1  # stands for the server where a client's number is expected
_STALL_SECONDS = 60.0  # without a sample of the server's receiver, until its round is given up
_UNTUNED_HZ = 70e6  # stands for a frequency that was not named yet, so that Companion can check the rest
# The parameters of Companion's flowgraphs and their defaults. One that has its default follows a config.
COMPANION_DEFAULTS = {
    "uri": "ip:192.168.2.1",
    "frequency_hz": 0.0,
    "sample_rate_hz": RADIO_RATE_HZ,
    "rx_gain_db": RX_GAIN_DB,
    "tx_attenuation_db": 10.0,
    "clients": 2,
    "votes": 21_880,
}


@dataclass(frozen=True)
class PlutoSettings:
    """The radio, and what all radios of a bench must agree on. ``frequency_hz`` has no default: you are on the air."""

    uri: str
    frequency_hz: float
    sample_rate_hz: float = RADIO_RATE_HZ
    rx_gain_db: float = RX_GAIN_DB
    tx_gain_db: float = TX_GAIN_DB
    crystal_ppm: float = CRYSTAL_PPM
    buffer_samples: int = 32_768
    primed_buffers: int = 4  # buffers of silence sent first: the host may stall that long without a gap in the stream

    clients: int = 2
    votes: int = 21_880
    repeats: int = 1
    scheme: str = "onebit"
    groups: int = 4
    fft_size: int = 256
    cp_samples: int = 64
    active_subcarriers: int = 192
    dc_nulls: int = 8
    # Buffers on the way in and out delay an answer by hundreds of thousands of samples, nobody knows how many.
    turnaround_samples: int = 262_144
    answer_samples: int = 524_288
    slot_samples: int = 524_288
    arm_seconds: float = 2.0  # how long a round waits for votes
    amplitude: float = AMPLITUDE
    trigger_amplitude: float = TRIGGER_AMPLITUDE

    def __post_init__(self) -> None:
        require(bool(self.uri), "uri", repr(self.uri), "that of a radio, such as ip:192.168.2.1 or usb:1.2.5")
        limits = driver_for(self.uri).limits
        allowed = f"a frequency that you may transmit on, {limits.rx_lo_hz}: nothing is sent before you name one"
        require(self.frequency_hz in limits.rx_lo_hz, "frequency_hz", self.frequency_hz, allowed)
        limits.sample_rate_hz.check("sample_rate_hz", self.sample_rate_hz)
        limits.rx_gain_db(self.frequency_hz).check("rx_gain_db", self.rx_gain_db)
        limits.tx_gain_db.check("tx_gain_db", self.tx_gain_db)
        integer("buffer_samples", self.buffer_samples, 1024, 1 << 22)
        integer("primed_buffers", self.primed_buffers, 1, 64)
        Numerology(**self.numerology())

    def numerology(self) -> dict[str, Any]:
        """Return what the blocks take of the waveform, by their names."""
        names = ("sample_rate_hz", "fft_size", "cp_samples", "active_subcarriers", "dc_nulls")
        return {name: getattr(self, name) for name in names}

    def facts(self) -> Facts:
        """Return what a recording says of the radio."""
        words = f"A round of over-the-air computation with {self.clients} clients, as the server received it"
        return Facts(f"the radio at {self.uri}", self.frequency_hz, words)

    @property
    def deadline_seconds(self) -> float:
        """How long a round may take on the wall clock. The receiver's own patience, in samples, ends most rounds that
        fail; this is for streams that stand still, and a busy machine or a slow simulation must not come near it."""
        num = Numerology(**self.numerology())
        layout = RoundLayout(num, self.clients, self.repeats, self.groups, slot_samples=self.slot_samples)
        longest = max(layout.frame(self.votes).samples, layout.acquisition_samples)
        return _STALL_SECONDS + (self.answer_samples + longest) / self.sample_rate_hz

    @property
    def clients_per_slot(self) -> int:
        """How many clients share a slot of an acquisition round."""
        return RoundLayout.clients_per_slot

    @property
    def max_cfo_rad(self) -> float:
        """The largest carrier frequency offset that a client searches, in rad/sample."""
        return max_cfo_rad(self.frequency_hz, self.sample_rate_hz, self.crystal_ppm)


def companion_values(
    config: str,
    client: int,
    uri: str,
    frequency_hz: float,
    sample_rate_hz: float,
    rx_gain_db: float,
    tx_attenuation_db: float,
    clients: int,
    votes: int,
    fft_size: int,
    cp_samples: int,
    active_subcarriers: int,
    dc_nulls: int,
    repeats: int,
    groups: int,
    buffer_samples: int,
    slot_samples: int,
    answer_samples: int = PlutoSettings.answer_samples,
) -> dict[str, Any]:
    """Return what a flowgraph of Companion runs with, by name: its own values, or those of a config.

    Companion replaces names inside of expressions, those of keywords and attributes as well; so the arguments are
    positional, and the result is a dictionary.

    Parameters
    ----------
    config : str
        The TOML file of a bench; an empty string stands for none.
    client : int
        The client's number, or ``SERVER``.
    uri, frequency_hz, sample_rate_hz, rx_gain_db, tx_attenuation_db, clients, votes
        The flowgraph's parameters. With a config, one that has its default (``COMPANION_DEFAULTS``) follows the config;
        another value replaces that of the config.
    fft_size, cp_samples, active_subcarriers, dc_nulls, repeats, groups : int
        The waveform. With a config, the config's holds, and so does its scheme.
    buffer_samples, slot_samples, answer_samples : int
        As in `PlutoSettings`.

    Returns
    -------
    dict
        The fields and properties of `PlutoSettings`. ``frequency_hz`` is 70 MHz where none was named that a Pluto can
        be tuned to; `named_frequency` tells.
    """
    own: dict[str, Any] = {
        "uri": uri,
        "frequency_hz": named_frequency(config, frequency_hz),
        "sample_rate_hz": sample_rate_hz,
        "rx_gain_db": rx_gain_db,
        "tx_attenuation_db": tx_attenuation_db,
        "clients": clients,
        "votes": votes,
    }
    waveform: dict[str, Any] = {
        "fft_size": fft_size,
        "cp_samples": cp_samples,
        "active_subcarriers": active_subcarriers,
        "dc_nulls": dc_nulls,
        "repeats": repeats,
        "groups": groups,
    }
    crystal_ppm, scheme = CRYSTAL_PPM, PlutoSettings.scheme
    if config:
        bench = load_bench(config)
        scheme = scheme_named(bench.scheme).waveform
        radios, crystal_ppm = bench.radios, bench.radios.crystal_ppm
        told: dict[str, Any] = {
            "sample_rate_hz": bench.waveform.sample_rate_hz,
            "rx_gain_db": radios.rx_gain_db,
            "tx_attenuation_db": -radios.tx_gain_db,
            "votes": burst_votes(bench.waveform.numerology(), bench.waveform.repeats),
        }
        if radios.clients:
            told["clients"] = len(radios.clients)
        if client < len(radios.clients):
            told["uri"] = radios.server if client == SERVER else radios.clients[client]
        own |= {name: value for name, value in told.items() if own[name] == COMPANION_DEFAULTS[name]}
        waveform = {name: getattr(bench.waveform, name) for name in waveform}
    own["tx_gain_db"] = -own.pop("tx_attenuation_db")
    own["uri"] = own["uri"] or COMPANION_DEFAULTS["uri"]
    if own["frequency_hz"] not in driver_for(own["uri"]).limits.rx_lo_hz:
        own["frequency_hz"] = _UNTUNED_HZ
    settings = PlutoSettings(
        **own,
        **waveform,
        crystal_ppm=crystal_ppm,
        scheme=scheme,
        buffer_samples=buffer_samples,
        slot_samples=slot_samples,
        answer_samples=answer_samples,
    )
    derived = ("deadline_seconds", "max_cfo_rad", "clients_per_slot")
    return {**dataclasses.asdict(settings), **{name: getattr(settings, name) for name in derived}}


def named_frequency(config: str, frequency_hz: float) -> float:
    """Return the frequency that the parameter names, otherwise that of the config, or 0 where neither names one."""
    return frequency_hz or (load_bench(config).radios.frequency_hz if config else 0.0)

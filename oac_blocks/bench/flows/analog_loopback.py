# SPDX-License-Identifier: GPL-3.0-or-later
"""Analog aggregation in one flowgraph, without a radio: a pilot down to N clients, their entries up, added by the air.

Clients and server share one clock: what is here is the channel, not the closed loop of calibration. Each frame, up or
down, is a burst and the silence that pushes it through the channel's latency. All frames of a direction have one
length, and the fading is drawn anew with each: the pilot and the payload of a round meet the same echoes
(reciprocity), and since the channel takes a frame of every client at a time, bursts stand on the same sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pmt
from gnuradio import gr

from oac_blocks.bench.flows.analog_messages import Go
from oac_blocks.bench.flows.analog_rounds import analog_rounds
from oac_blocks.bench.settings import BURST_SYMBOLS
from oac_blocks.blocks.analog_demapper import analog_demapper
from oac_blocks.blocks.analog_mapper import analog_mapper
from oac_blocks.blocks.broadcast_channel import broadcast_channel
from oac_blocks.blocks.multiple_access_channel import multiple_access_channel
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp import preamble
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.streaming_channel import StreamingChannel
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform import ofdm
from oac_blocks.dsp.waveform.analog import Inversion
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.hier.ofdm_demodulator import ofdm_demodulator
from oac_blocks.hier.ofdm_modulator import ofdm_modulator

_GRID = ("fft_size", "cp_samples", "active_subcarriers", "dc_nulls")
# Nobody's clock drifts and nobody is late: room for neither keeps the channels' latency short.
_NO_DRIFT: dict[str, Any] = {"max_delay_samples": 0, "max_drift_samples": 16}


@dataclass(frozen=True)
class AnalogLoopbackSettings:
    clients: int = 2
    symbols: int = BURST_SYMBOLS  # OFDM symbols of the longest burst
    seed: int = 1

    # The air, drawn anew in each round
    noise_alpha: float = 2.0  # how loud the noise is, each round's go says
    fading: str = "none"
    rician_k_db: float = 10.0
    profile: str = "flat"
    adc_bits: int = 0  # 0: no converter

    # What clients do about their channels
    inversion: Inversion = "phase"
    least_magnitude: float = 0.1
    mean_gain: float = 1.0  # what that leaves of an amplitude in the mean
    pilot_symbols: int = 4
    pilot_snr_db: float | None = None  # SNR of the pilot on one subcarrier at a client; None: no noise

    # The waveform
    sample_rate_hz: float = 20e6
    fft_size: int = 256
    cp_samples: int = 64
    active_subcarriers: int = 192
    dc_nulls: int = 8

    def __post_init__(self) -> None:
        integer("clients", self.clients, 1, 64)
        integer("symbols", self.symbols, 1, 8192)
        integer("pilot_symbols", self.pilot_symbols, 1, 1024)

    def numerology(self) -> Numerology:
        return Numerology(self.sample_rate_hz, **self.grid())

    def grid(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _GRID}

    @property
    def early_samples(self) -> int:
        """How far into the prefix the windows of server and clients begin."""
        return self.cp_samples // 3

    @property
    def most_entries(self) -> int:
        return self.symbols * self.numerology().entries_per_symbol


class framed_mapper(analog_mapper):  # noqa: N801 (GNU Radio's way of naming)
    """An analog mapper whose bursts stand at the head of frames of ``frame_symbols``; behind them is silence."""

    def __init__(self, frame_symbols: int, active_subcarriers: int, **settings: Any) -> None:
        analog_mapper.__init__(self, active_subcarriers, **settings)
        self._frame_symbols = frame_symbols

    def _begin(self, offset: int) -> bool:
        if not analog_mapper._begin(self, offset):
            return False
        silence = np.zeros((self._frame_symbols - len(self._rest), self._num.active_subcarriers), np.complex64)
        self._rest = np.concatenate((self._rest, silence))
        return True


class pilot_listener(gr.sync_block):  # noqa: N801 (GNU Radio's way of naming)
    """Every client's look at the pilot. Inputs: one stream of samples a client, in frames.

    Message ports ``channel0`` ..: a PDU of complex64, a client's channel on each active subcarrier. ``known``: all
    clients have theirs.
    """

    def __init__(self, settings: AnalogLoopbackSettings, frame_samples: int, first_sample: int) -> None:
        gr.sync_block.__init__(self, "OAC pilot listener", in_sig=[np.complex64] * settings.clients, out_sig=None)
        self._num, self._early_samples = settings.numerology(), settings.early_samples
        self._frame_samples = frame_samples
        self._pilot = slice(first_sample, first_sample + settings.pilot_symbols * self._num.symbol_samples)
        self._reference = pilot_tones(self._num)
        self.set_output_multiple(frame_samples)
        self._ports = [pmt.intern(f"channel{i}") for i in range(settings.clients)]
        for port in (*self._ports, pmt.intern("known")):
            self.message_port_register_out(port)

    def work(self, input_items: Any, _output_items: Any) -> int:
        for start in range(0, len(input_items[0]), self._frame_samples):
            for port, samples in zip(self._ports, input_items, strict=True):
                frame = samples[start : start + self._frame_samples]
                heard = ofdm.demodulate(frame[self._pilot], self._num, self._early_samples)
                channel = heard.mean(axis=0, dtype=np.complex128) / self._reference
                self.message_port_pub(port, pdus.make(channel.astype(np.complex64)))
            self.message_port_pub(pmt.intern("known"), pmt.PMT_T)
        return len(input_items[0])


def pilot_tones(num: Numerology) -> npt.NDArray[np.complex64]:
    """A symbol of the pilot (active,), of unit energy on each subcarrier."""
    return ofdm.demodulate(preamble.client_sequence(0, num), num)[0]


class analog_loopback(gr.top_block):  # noqa: N801 (GNU Radio's way of naming)
    """Rounds, pilot, broadcast channel, clients, multiple-access channel, demodulator, demapper.

    What clients send comes from outside: post or connect to the ports ``go`` and ``payload`` of ``rounds``, and listen
    to its port ``entries``.
    """

    def __init__(self, settings: AnalogLoopbackSettings) -> None:
        gr.top_block.__init__(self, "OAC analog loopback", catch_exceptions=False)
        self.settings = settings
        num = settings.numerology()
        pilot = np.tile(pilot_tones(num), settings.pilot_symbols).view(np.float32)
        self.rounds = analog_rounds(settings.clients, settings.most_entries, pilot, self._prepare)
        self._make_down(num)
        self._make_up(num)
        self._connect()

    def _prepare(self, go: Go) -> None:
        for mapper in self.mappers:
            mapper.set_scale(go.scale)
        self.demapper.set_scale(go.scale)
        self.demapper.set_k(go.entries)
        self.demapper.set_n_clients(len(go.senders))
        self.up.set_snr_db(go.snr_db)
        self.up.set_adc_full_scale(go.adc_full_scale)

    def _channel(self, frame_samples: int) -> dict[str, Any]:
        """Both ways alike, so that a client's fading is the same."""
        settings = self.settings
        return {
            "sample_rate_hz": settings.sample_rate_hz,
            "snr_db": None,
            "fading": settings.fading,
            "rician_k_db": settings.rician_k_db,
            "profile": settings.profile,
            "coherence_samples": frame_samples,
            "seed": settings.seed,
            "chunk_samples": frame_samples,
            **_NO_DRIFT,
        }

    def _frame_symbols(self, burst_symbols: int) -> int:
        """The burst, and silence for as long as it is under way in the channel."""
        num = self.settings.numerology()
        latency = StreamingChannel([Link()], Receiver(), num.sample_rate_hz, 0, **_NO_DRIFT).latency_samples
        return burst_symbols - (-latency // num.symbol_samples)

    def _make_down(self, num: Numerology) -> None:
        settings = self.settings
        symbols = self._frame_symbols(settings.pilot_symbols)
        self.pilot, self.pilot_modulator = (
            framed_mapper(symbols, num.active_subcarriers),
            ofdm_modulator(**settings.grid()),
        )
        samples = symbols * num.symbol_samples
        self.down = broadcast_channel(settings.clients, **self._channel(samples) | {"snr_db": settings.pilot_snr_db})
        self.listener = pilot_listener(settings, samples, self.down.latency_samples)

    def _make_up(self, num: Numerology) -> None:
        settings, grid = self.settings, self.settings.grid()
        symbols = self._frame_symbols(settings.symbols)
        precoding = {"inversion": settings.inversion, "least_magnitude": settings.least_magnitude}
        clients = range(settings.clients)
        self.mappers = [framed_mapper(symbols, num.active_subcarriers, **precoding) for _ in clients]
        self.modulators = [ofdm_modulator(**grid) for _ in clients]
        self.up = multiple_access_channel(
            settings.clients,
            noise_alpha=settings.noise_alpha,
            adc_bits=settings.adc_bits,
            **self._channel(symbols * num.symbol_samples),
        )
        self.demodulator = ofdm_demodulator(early_samples=settings.early_samples, **grid)
        self.demapper = analog_demapper(1, num.active_subcarriers, mean_gain=settings.mean_gain)

    def _connect(self) -> None:
        self.connect(self.pilot, self.pilot_modulator, self.down)
        self.msg_connect((self.rounds, "pilot"), (self.pilot, "entries"))
        self.msg_connect((self.listener, "known"), (self.rounds, "known"))
        for i, (mapper, modulator) in enumerate(zip(self.mappers, self.modulators, strict=True)):
            self.connect((self.down, i), (self.listener, i))
            self.msg_connect((self.listener, f"channel{i}"), (mapper, "channel"))
            self.msg_connect((self.rounds, f"entries{i}"), (mapper, "entries"))
            self.connect(mapper, modulator, (self.up, i))
        self.connect(self.up, self.demodulator, self.demapper)
        self.msg_connect((self.demapper, "entries"), (self.rounds, "heard"))

    @property
    def counting_blocks(self) -> list[Any]:
        """Those that count what they had to drop."""
        return [self.rounds, self.pilot, self.down, *self.mappers, self.up, self.demodulator, self.demapper]

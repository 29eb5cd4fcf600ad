# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole system in one flowgraph, without a radio: N clients with clocks of their own, one server, the air between.

It is ``oac_loopback.grc`` for any number of clients and without a screen. It runs in lock step: a round begins when all
have dealt with the one before, so the same seed gives the same decisions on any machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gnuradio import gr

from oac_blocks.blocks.broadcast_channel import broadcast_channel
from oac_blocks.blocks.client_transceiver import client_transceiver
from oac_blocks.blocks.drift_calibrator import drift_calibrator
from oac_blocks.blocks.multiple_access_channel import multiple_access_channel
from oac_blocks.blocks.round_control import round_control
from oac_blocks.blocks.server_receiver import server_receiver
from oac_blocks.blocks.trigger_source import trigger_source
from oac_blocks.dsp.checks import integer, real, require
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.record.metadata import Facts

_NUMEROLOGY = ("sample_rate_hz", "fft_size", "cp_samples", "active_subcarriers", "dc_nulls")
_SLOT_SAMPLES = 8192
_USUAL_CFO_RAD, _MOST_CFO_RAD = 0.175, 1.2
_TAIL_SAMPLES = 8192  # behind the longest answer: stream offsets, echoes


@dataclass(frozen=True)
class LoopbackSettings:
    """The radios are spread evenly: clocks from -``clock_ppm`` to +``clock_ppm``, streams and delays likewise."""

    clients: int = 2
    votes: int = 21_880
    repeats: int = 1
    scheme: str = "onebit"
    rounds: int = 0  # 0: endless
    calibrate: bool = True
    seed: int = 1

    # The air
    snr_db: float | None = 20.0  # SNR in dB of a unit subcarrier, on the uplink and on the downlink
    noise_alpha: float = 2.0
    fading: str = "rayleigh"  # fading of the uplink, drawn anew in each round
    rician_k_db: float = 10.0
    profile: str = "epa"

    # The radios
    sample_rate_hz: float = 20e6
    clock_ppm: float = 20.0
    clock_walk_ppm: float = 0.01
    carrier_hz: float = 2.4e9  # the local oscillator hangs on the same crystal as the sample clock
    stream_offset_samples: int = 400
    delay_samples: float = 3.0

    # The waveform
    groups: int = 4
    fft_size: int = 256
    cp_samples: int = 64
    active_subcarriers: int = 192
    dc_nulls: int = 8

    # Time
    arm_seconds: float = 0.0  # how long a round waits for votes; 0: until all clients have theirs
    answer_samples: int = 131_072
    chunk_samples: int = 131_072  # blocks in Python take turns: fewer and longer ones are a sixth faster than 65,536

    def __post_init__(self) -> None:
        integer("clients", self.clients, 1, 63)  # the channel's 64th input is the server's own trigger
        integer("rounds", self.rounds, 0)
        real("carrier_hz", self.carrier_hz, 0.0)
        integer("stream_offset_samples", self.stream_offset_samples, 0, 4000)
        real("delay_samples", self.delay_samples, 0.0, 90.0)

    def layout(self) -> RoundLayout:
        num = Numerology(**self.numerology())
        slot = max(_SLOT_SAMPLES, 4 * num.symbol_samples)
        scheme = scheme_named(self.scheme)
        return RoundLayout(num, self.clients, self.repeats, self.groups, self.answer_samples, slot, scheme=scheme)

    def max_cfo_rad(self) -> float:
        """How far the clients must search; ValueError if it is farther than they can."""
        most = 2 * math.pi * 1e-6 * self.clock_ppm * self.carrier_hz / self.sample_rate_hz
        wanted = f"at most {_MOST_CFO_RAD} rad/sample: slower clocks, a lower carrier or a higher sample rate"
        require(most <= _MOST_CFO_RAD, "frequency offset", f"{most:.2f} rad/sample", wanted)
        return max(_USUAL_CFO_RAD, 1.1 * most)

    def numerology(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NUMEROLOGY}

    def facts(self) -> Facts:
        """Return what a recording says of the loopback."""
        snr = "no noise" if self.snr_db is None else f"{self.snr_db:g} dB"
        words = f"a simulated loopback: {self.clients} clients, {snr}, {self.fading} fading, {self.profile}"
        return Facts("simulated by gr-oac", self.carrier_hz, f"A round of {words}", self.seed)

    def clocks_ppm(self) -> list[float]:
        return self._spread(self.clock_ppm)

    def cfos_hz(self) -> list[float]:
        return self._spread(1e-6 * self.clock_ppm * self.carrier_hz)

    def stream_offsets(self) -> list[int]:
        """Not in the clocks' order, and not symmetric."""
        return [round(offset) for offset in np.roll(self._spread(self.stream_offset_samples), 1) * 0.83]

    def delays_samples(self) -> list[float]:
        return [self.delay_samples * (0.5 + i / self.clients) for i in range(self.clients)]

    def _spread(self, most: float) -> list[float]:
        return np.linspace(-most, most, self.clients).tolist() if self.clients > 1 else [most]


class loopback(gr.top_block):  # noqa: N801 (GNU Radio's way of naming)
    """Trigger source, broadcast channel, clients, multiple-access channel, server receiver, calibrator, round control.

    The votes come from outside: connect sources of ``payload`` to ``clients[i]`` and, where they wait to be asked, the
    port ``next`` of ``control`` to them. ``receiver`` has ``soft_votes`` and ``arrivals``.
    """

    def __init__(self, settings: LoopbackSettings) -> None:
        gr.top_block.__init__(self, "OAC loopback", catch_exceptions=False)
        self.settings = settings
        self._make_air(settings)
        self._make_server(settings)
        self._make_clients(settings)
        self._connect()

    def _make_air(self, settings: LoopbackSettings) -> None:
        n = settings.clients
        radios: dict[str, Any] = {
            "sample_rate_hz": settings.sample_rate_hz,
            "noise_alpha": settings.noise_alpha,
            "clock_walk_ppm": settings.clock_walk_ppm,
            "seed": settings.seed,
            "clock_seed": settings.seed,
            "chunk_samples": settings.chunk_samples,
        }
        self.down = broadcast_channel(
            n,
            snr_db=settings.snr_db,
            clock_ppm=settings.clocks_ppm(),
            cfo_hz=settings.cfos_hz(),
            delay_samples=settings.delays_samples(),
            **radios,
        )
        # The last input is the server's own trigger, as its own receiver hears it.
        self.up = multiple_access_channel(
            n + 1,
            snr_db=settings.snr_db,
            clock_ppm=[*settings.clocks_ppm(), 0.0],
            cfo_hz=[*settings.cfos_hz(), 0.0],
            delay_samples=[*settings.delays_samples(), 0.0],
            stream_offset_samples=[*settings.stream_offsets(), 0],
            fading=[*[settings.fading] * n, "none"],
            rician_k_db=settings.rician_k_db,
            profile=[*[settings.profile] * n, "flat"],
            coherence_samples=self.round_samples,
            **(radios | {"clock_walk_ppm": [*[settings.clock_walk_ppm] * n, 0.0]}),
        )

    @property
    def counting_blocks(self) -> list[Any]:
        """Those that count what they had to drop."""
        return [self.trigger, self.down, self.up, self.receiver, self.calibrator, self.control, *self.clients]

    @property
    def round_samples(self) -> int:
        """Long enough for the longest answer, behind all that delays it; a whole number of chunks."""
        settings, layout = self.settings, self.settings.layout()
        longest = max(layout.frame(settings.votes).samples, layout.acquisition_samples)
        # The answers come through both channels, and the server's search lags behind.
        needed = self.down.latency_samples + settings.answer_samples + longest + _TAIL_SAMPLES
        return -(-needed // settings.chunk_samples) * settings.chunk_samples

    def _make_server(self, settings: LoopbackSettings) -> None:
        self.trigger = trigger_source("lock_step", self.round_samples, chunk_samples=settings.chunk_samples)
        self.receiver = server_receiver(
            clients=settings.clients,
            votes=settings.votes,
            repeats=settings.repeats,
            groups=settings.groups,
            slot_samples=settings.layout().slot_samples,
            answer_samples=settings.answer_samples,
            chunk_samples=settings.chunk_samples,
            scheme=settings.scheme,
            **settings.numerology(),
        )
        self.calibrator = drift_calibrator(
            settings.clients,
            settings.calibrate,
            turnaround_samples=settings.answer_samples,
            sample_rate_hz=settings.sample_rate_hz,
            slot_samples=settings.layout().slot_samples,
        )
        self.control = round_control(settings.clients, settings.rounds, arm_seconds=settings.arm_seconds)

    def _make_clients(self, settings: LoopbackSettings) -> None:
        # The way down takes time in a flowgraph that it does not take in the air: a client answers earlier by that.
        turnaround = settings.answer_samples - self.down.latency_samples
        least = f"at least {self.down.latency_samples} more than what the clients' search takes"
        require(turnaround > 0, "answer_samples", settings.answer_samples, least)
        self.clients = [
            client_transceiver(
                i,
                settings.clients,
                turnaround,
                settings.votes,
                settings.repeats,
                settings.groups,
                slot_samples=settings.layout().slot_samples,
                max_cfo_rad=settings.max_cfo_rad(),
                seed=settings.seed,
                chunk_samples=settings.chunk_samples,
                scheme=settings.scheme,
                **settings.numerology(),
            )
            for i in range(settings.clients)
        ]

    def _connect(self) -> None:
        self.connect(self.trigger, self.down)
        for i, client in enumerate(self.clients):
            self.connect((self.down, i), client, (self.up, i))
            self.msg_connect((self.calibrator, "orders"), (client, "orders"))
            self.msg_connect((client, "status"), (self.calibrator, "status"))
            self.msg_connect((client, "status"), (self.control, "status"))
        self.connect(self.trigger, (self.up, len(self.clients)))
        self.connect(self.up, self.receiver)
        self.msg_connect((self.receiver, "arrivals"), (self.calibrator, "arrivals"))
        self.msg_connect((self.calibrator, "plan"), (self.control, "plan"))
        self.msg_connect((self.control, "expect"), (self.receiver, "expect"))
        self.msg_connect((self.control, "fire"), (self.trigger, "fire"))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the air from clients to server: each stream has its own clock, oscillator and multipath.

Their sum arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oac_blocks.blocks.support.channel_block import MAX_CLIENTS, ChannelBlock, Numbers, Profile, with_each
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.streaming_channel import StreamingChannel
from oac_blocks.dsp.checks import integer


class multiple_access_channel(ChannelBlock):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Multiple-access channel: takes ``clients`` streams and outputs the server's stream, ``latency_samples`` later.

    Inputs and output are complex64. A setting of the clients (``gain_db`` to ``clock_walk_ppm``) is one value for all
    or a list with one value for each. All of them can be changed while the flowgraph runs; see
    ``dsp.channel.streaming_channel``.

    ``snr_db`` is the SNR of a unit subcarrier, None for no noise; ``adc_bits`` is 0 for no converter. Fading is drawn
    again every ``coherence_samples`` (0: never) and for each message on port ``redraw``, whatever its content.

    The clocks are drawn from ``clock_seed``, noise and fading from ``seed``. A ``broadcast_channel`` with the same
    ``clock_seed``, ``clock_ppm``, ``clock_walk_ppm`` and ``cfo_hz`` models the same radios: client i is input i here
    and output i there, and further inputs here change nothing.

    A client whose clock differs from the server's by ``max_drift_samples`` slips: its stream jumps by that many
    samples, and ``slips`` counts the event. Tags of the inputs are delayed by ``latency_samples``, without the delay of
    the client's link.
    """

    def __init__(
        self,
        clients: int = 2,
        sample_rate_hz: float = 20e6,
        snr_db: float | None = 20.0,
        gain_db: Numbers = 0.0,
        fading: str | Sequence[str] = "none",
        rician_k_db: Numbers = 10.0,
        profile: Profile | Sequence[Profile] = "flat",
        coherence_samples: int = 0,
        delay_samples: Numbers = 0.0,
        stream_offset_samples: int | Sequence[int] = 0,
        cfo_hz: Numbers = 0.0,
        clock_ppm: Numbers = 0.0,
        clock_walk_ppm: Numbers = 0.0,
        noise_alpha: float = 2.0,
        adc_bits: int = 0,
        adc_full_scale: float = 1.0,
        max_delay_samples: int = 4096,
        max_drift_samples: int = 16_384,
        seed: int = 1,
        clock_seed: int = 1,
        chunk_samples: int = 65_536,
    ) -> None:
        clients = integer("clients", clients, 1, MAX_CLIENTS)
        links = with_each(
            [Link()] * clients, gain_db=gain_db, fading=fading, rician_k_db=rician_k_db, profile=profile,
            delay_samples=delay_samples, stream_offset_samples=stream_offset_samples, cfo_hz=cfo_hz,
            clock_ppm=clock_ppm, clock_walk_ppm=clock_walk_ppm,
        )  # fmt: skip
        receivers = with_each(
            [Receiver()] * 1, snr_db=snr_db, noise_alpha=noise_alpha, adc_bits=adc_bits, adc_full_scale=adc_full_scale
        )
        self._air = StreamingChannel(
            links,
            receivers[0],
            sample_rate_hz,
            seed,
            clock_seed=clock_seed,
            coherence_samples=coherence_samples,
            max_delay_samples=max_delay_samples,
            max_drift_samples=max_drift_samples,
        )
        ChannelBlock.__init__(self, "OAC Multiple-Access Channel", self._air, clients, 1, chunk_samples)

    @property
    def receiver(self) -> Receiver:
        """Return the settings of the server's receiver."""
        return self._air.receiver

    def pass_on(self, input_items: Any, output_items: Any) -> None:
        output_items[0][:] = self._air.push(input_items)

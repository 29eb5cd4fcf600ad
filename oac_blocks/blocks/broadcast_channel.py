# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate the air from server to clients: each client has its own clock, oscillator, multipath and receiver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oac_blocks.blocks.support.channel_block import MAX_CLIENTS, ChannelBlock, Numbers, Profile, with_each
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.streaming_channel import StreamingBroadcast
from oac_blocks.dsp.checks import integer


class broadcast_channel(ChannelBlock):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Broadcast channel: takes the server's stream and outputs those of ``clients`` clients, ``latency_samples`` later.

    Input and outputs are complex64. A setting of the clients is one value for all or a list with one value for each;
    this includes their receivers (``snr_db``, ``noise_alpha``, ``adc_bits``, ``adc_full_scale``). All of them can be
    changed while the flowgraph runs; see ``dsp.channel.streaming_channel``.

    This block is the downlink to the uplink of ``multiple_access_channel``: give both the same ``clock_ppm``,
    ``clock_walk_ppm``, ``cfo_hz`` and ``clock_seed``, and they model the same radios. All of these describe the client,
    so a client with a fast clock receives a slow server, and a client with a high oscillator receives a low carrier.
    With the same ``seed`` as well, a client's fading is the same in both directions, as long as both blocks draw it
    equally often; each receiver always has its own noise.

    ``snr_db`` is the SNR of a unit subcarrier, None for no noise; ``adc_bits`` is 0 for no converter. Fading is drawn
    again every ``coherence_samples`` (0: never) and for each message on port ``redraw``, whatever its content.

    A client whose clock differs from the server's by ``max_drift_samples`` slips: its stream jumps by that many
    samples, and ``slips`` counts the event. In the multiple-access channel it slips at the same count of its clock.
    Tags of the input are delayed by ``latency_samples`` on all outputs, without the delays of the links.
    """

    def __init__(
        self,
        clients: int = 2,
        sample_rate_hz: float = 20e6,
        snr_db: float | Sequence[float | None] | None = 20.0,
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
        noise_alpha: Numbers = 2.0,
        adc_bits: int | Sequence[int] = 0,
        adc_full_scale: Numbers = 1.0,
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
            [Receiver()] * clients,
            snr_db=snr_db,
            noise_alpha=noise_alpha,
            adc_bits=adc_bits,
            adc_full_scale=adc_full_scale,
        )
        self._air = StreamingBroadcast(
            links,
            receivers,
            sample_rate_hz,
            seed,
            clock_seed=clock_seed,
            coherence_samples=coherence_samples,
            max_delay_samples=max_delay_samples,
            max_drift_samples=max_drift_samples,
        )
        ChannelBlock.__init__(self, "OAC Broadcast Channel", self._air, 1, clients, chunk_samples)

    def pass_on(self, input_items: Any, output_items: Any) -> None:
        for out, samples in zip(output_items, self._air.push(input_items[0]), strict=True):
            out[:] = samples

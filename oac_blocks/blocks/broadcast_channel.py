# SPDX-License-Identifier: GPL-3.0-or-later
"""The air from server to clients: one stream, as each client's clock, oscillator, echoes and receiver make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oac_blocks.blocks.support.channel_block import MAX_CLIENTS, ChannelBlock, Numbers, Profile, with_each
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.streaming_channel import StreamingBroadcast
from oac_blocks.dsp.checks import integer


class broadcast_channel(ChannelBlock):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Broadcast channel: the server's stream in, those of ``clients`` clients out, ``latency_samples`` later.

    Input and outputs: complex64. What is said of a client is one value for all or a list with one for each, its
    receiver (``snr_db``, ``noise_alpha``, ``adc_bits``, ``adc_full_scale``) included. All of it can be set while the
    flowgraph runs; ``dsp.streaming_channel`` says how.

    The way back from ``multiple_access_channel``: give both the same ``clock_ppm``, ``clock_walk_ppm``, ``cfo_hz`` and
    ``clock_seed``, and they have the same radios. All of these describe the client, so a fast one hears the server run
    slowly, and one whose oscillator is too high hears it too low. With the same ``seed`` as well, a client's fading is
    the same both ways, as long as both blocks draw it equally often; noise is always each receiver's own.

    ``snr_db`` is that of a unit subcarrier, None for no noise; ``adc_bits`` is 0 for no converter. Fading is drawn anew
    every ``coherence_samples`` (0: never) and when a message, whatever it says, comes to port ``redraw``.

    A client whose clock has run ``max_drift_samples`` away from the server's slips: its stream jumps by that many
    samples, and ``slips`` counts it; in the multiple-access channel it slips at the same count of its clock. Tags of
    the input are delayed by ``latency_samples`` on all outputs, not by what the links add.
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""The air between clients and server: each stream through its own clock, oscillator and echoes, added up."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.bursts import Drops
from oac_blocks.dsp.channel import Link, Receiver
from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.fading import DelayProfile
from oac_blocks.dsp.streaming_channel import StreamingChannel

MAX_CLIENTS = 64
Numbers = float | Sequence[float]
Profile = str | DelayProfile


class multiple_access_channel(gr.sync_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Multiple-access channel: ``clients`` streams in, the server's stream out, ``latency_samples`` later.

    Inputs and output: complex64. What is said of a client (``gain_db`` to ``clock_walk_ppm``) is one value for all or a
    list with one for each. All of it can be set while the flowgraph runs; ``dsp.streaming_channel`` says how.

    ``snr_db`` is that of a unit subcarrier, None for no noise; ``adc_bits`` is 0 for no converter. Fading is drawn anew
    every ``coherence_samples`` (0: never) and when a message, whatever it says, comes to port ``redraw``.

    A client whose clock has run ``max_drift_samples`` away from the server's slips back: ``slips`` counts it.
    Tags of the inputs are delayed by ``latency_samples``, not by what their client's link adds.
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
        chunk_samples: int = 65_536,
    ) -> None:
        clients = integer("clients", clients, 1, MAX_CLIENTS)
        chunk = integer("chunk_samples", chunk_samples, 512, 1 << 22)
        self._lock = threading.Lock()  # two setters at once must not undo one another
        links = [Link()] * clients
        for name, value in (
            ("gain_db", gain_db),
            ("fading", fading),
            ("rician_k_db", rician_k_db),
            ("profile", profile),
            ("delay_samples", delay_samples),
            ("stream_offset_samples", stream_offset_samples),
            ("cfo_hz", cfo_hz),
            ("clock_ppm", clock_ppm),
            ("clock_walk_ppm", clock_walk_ppm),
        ):
            links = _with_each(links, name, value)
        self._channel = StreamingChannel(
            links,
            Receiver(snr_db, noise_alpha, _bits(adc_bits), adc_full_scale),
            sample_rate_hz,
            seed,
            coherence_samples=coherence_samples,
            max_delay_samples=max_delay_samples,
            max_drift_samples=max_drift_samples,
        )
        gr.sync_block.__init__(
            self, name="OAC Multiple-Access Channel", in_sig=[np.complex64] * clients, out_sig=[np.complex64]
        )
        self._drops = Drops(self.logger)
        self.set_output_multiple(chunk)
        self.set_min_output_buffer(2 * chunk)
        self.declare_sample_delay(self.latency_samples)
        self.message_port_register_in(pmt.intern("redraw"))
        self.set_msg_handler(pmt.intern("redraw"), self._on_redraw)

    @property
    def latency_samples(self) -> int:
        """From inputs to output, besides what the clients' links add."""
        return self._channel.latency_samples

    @property
    def links(self) -> tuple[Link, ...]:
        return self._channel.links

    @property
    def receiver(self) -> Receiver:
        return self._channel.receiver

    @property
    def drift_samples(self) -> tuple[float, ...]:
        """By how much each client's clock has run ahead of the server's."""
        return self._channel.drift_samples

    @property
    def slips(self) -> tuple[int, ...]:
        """How often each client's drift outgrew the buffer since the flowgraph was started."""
        return self._channel.slips

    @property
    def bad_samples(self) -> int:
        """Samples that were NaN, infinite or absurdly large, and taken as silence."""
        return self._channel.bad_samples

    @property
    def dropped(self) -> int:
        """Chunks that the channel failed on; silence went out in their place, and the channel began anew."""
        return self._drops.count

    def set_gain_db(self, gain_db: Numbers) -> None:
        self._set_each("gain_db", gain_db)

    def set_fading(self, fading: str | Sequence[str]) -> None:
        """none, rayleigh or rician; a client whose fading changes draws it anew."""
        self._set_each("fading", fading)

    def set_rician_k_db(self, rician_k_db: Numbers) -> None:
        self._set_each("rician_k_db", rician_k_db)

    def set_profile(self, profile: Profile | Sequence[Profile]) -> None:
        self._set_each("profile", profile)

    def set_delay_samples(self, delay_samples: Numbers) -> None:
        self._set_each("delay_samples", delay_samples)

    def set_stream_offset_samples(self, stream_offset_samples: int | Sequence[int]) -> None:
        self._set_each("stream_offset_samples", stream_offset_samples)

    def set_cfo_hz(self, cfo_hz: Numbers) -> None:
        self._set_each("cfo_hz", cfo_hz)

    def set_clock_ppm(self, clock_ppm: Numbers) -> None:
        """The clocks' rates; the drift that they have gathered stays."""
        self._set_each("clock_ppm", clock_ppm)

    def set_clock_walk_ppm(self, clock_walk_ppm: Numbers) -> None:
        self._set_each("clock_walk_ppm", clock_walk_ppm)

    def set_coherence_samples(self, coherence_samples: int) -> None:
        self._channel.set_coherence_samples(coherence_samples)

    def set_snr_db(self, snr_db: float | None) -> None:
        self._set_receiver(snr_db=snr_db)

    def set_noise_alpha(self, noise_alpha: float) -> None:
        self._set_receiver(noise_alpha=noise_alpha)

    def set_adc_bits(self, adc_bits: int) -> None:
        self._set_receiver(adc_bits=_bits(adc_bits))

    def set_adc_full_scale(self, adc_full_scale: float) -> None:
        self._set_receiver(adc_full_scale=adc_full_scale)

    def _set_each(self, name: str, value: Any) -> None:
        with self._lock:
            self._channel.set_links(_with_each(self._channel.links, name, value))

    def _set_receiver(self, **changes: Any) -> None:
        with self._lock:
            self._channel.set_receiver(dataclasses.replace(self._channel.receiver, **changes))

    def start(self) -> bool:
        self._channel.reset()
        return True

    def _on_redraw(self, _message: Any) -> None:
        self._channel.redraw()

    def work(self, input_items: Any, output_items: Any) -> int:
        out = output_items[0]
        bad = self._channel.bad_samples
        try:
            out[:] = self._channel.push(input_items)
        except Exception as error:  # one that leaves work() would end the block's thread and hang the flowgraph
            self._drops.add(str(error))
            self._channel.reset()
            out[:] = 0
        if not bad and self._channel.bad_samples:
            self.logger.warn(
                "samples that are NaN or infinite: taken as silence (further ones are counted, not logged)"
            )
        return len(out)


def _with_each(links: Sequence[Link], name: str, value: Any) -> list[Link]:
    """The links with one setting changed: a single value goes to all of them, a list has one for each."""
    single = isinstance(value, str) or not isinstance(value, Sequence | np.ndarray)
    values = [value] * len(links) if single else list(value)
    require(len(values) == len(links), name, f"{len(values)} values", f"one value or one for each of {len(links)}")
    return [dataclasses.replace(link, **{name: each}) for link, each in zip(links, values, strict=True)]


def _bits(adc_bits: int) -> int | None:
    return integer("adc_bits", adc_bits, 0, 24) or None

# SPDX-License-Identifier: GPL-3.0-or-later
"""Base class of the channel blocks, up and down: settings for each client, and work() that never fails."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.channel.multiple_access import Link, Receiver
from oac_blocks.dsp.channel.streaming_channel import StreamingAir
from oac_blocks.dsp.checks import integer, require

MAX_CLIENTS = 64
Numbers = float | Sequence[float]
Profile = str | DelayProfile
Settings = TypeVar("Settings", Link, Receiver)


class ChannelBlock(gr.sync_block):
    """A channel of dsp as a block: streams of complex64, sample for sample, ``latency_samples`` later.

    A setting of the clients is one value for all of them or a list with one value for each.
    """

    def __init__(self, name: str, channel: StreamingAir, inputs: int, outputs: int, chunk_samples: int) -> None:
        chunk = integer("chunk_samples", chunk_samples, 512, 1 << 22)
        gr.sync_block.__init__(self, name=name, in_sig=[np.complex64] * inputs, out_sig=[np.complex64] * outputs)
        self._channel = channel
        self._lock = threading.Lock()  # two setters at the same time must not undo each other
        self._drops = Drops(self.logger)
        self.set_output_multiple(chunk)
        self.set_min_output_buffer(2 * chunk)
        self.declare_sample_delay(self.latency_samples)
        self.message_port_register_in(pmt.intern("redraw"))
        self.set_msg_handler(pmt.intern("redraw"), self._on_redraw)

    def pass_on(self, input_items: Any, output_items: Any) -> None:
        """Push the inputs through the channel into the outputs."""
        raise NotImplementedError

    @property
    def latency_samples(self) -> int:
        """Return the latency from inputs to outputs, without the delays of the clients' links."""
        return self._channel.latency_samples

    @property
    def links(self) -> tuple[Link, ...]:
        """Return the present settings of each client's link."""
        return self._channel.links

    @property
    def receivers(self) -> tuple[Receiver, ...]:
        """Return the present settings of each receiver."""
        return self._channel.receivers

    @property
    def drift_samples(self) -> tuple[float, ...]:
        """Return how far each client's clock has run ahead of the server's, in samples."""
        return self._channel.drift_samples

    @property
    def slips(self) -> tuple[int, ...]:
        """Return how often each client's drift exceeded the buffer since the flowgraph was started."""
        return self._channel.slips

    @property
    def bad_samples(self) -> int:
        """Return how many samples were NaN, infinite or very large, and were replaced with zeros."""
        return self._channel.bad_samples

    @property
    def dropped(self) -> int:
        """Return on how many chunks the channel failed; zeros were output instead, and the channel was reset."""
        return self._drops.count

    def set_gain_db(self, gain_db: Numbers) -> None:
        """Set the gains of the links in dB."""
        self._set_link("gain_db", gain_db)

    def set_fading(self, fading: str | Sequence[str]) -> None:
        """Set the fading (none, rayleigh or rician); a client whose fading changes draws a new channel."""
        self._set_link("fading", fading)

    def set_rician_k_db(self, rician_k_db: Numbers) -> None:
        """Set the ratio of line of sight to scattered power in dB, for Rician fading."""
        self._set_link("rician_k_db", rician_k_db)

    def set_profile(self, profile: Profile | Sequence[Profile]) -> None:
        """Set the power-delay profiles, by name or as ``DelayProfile``."""
        self._set_link("profile", profile)

    def set_delay_samples(self, delay_samples: Numbers) -> None:
        """Set the propagation delays in samples, fractions included."""
        self._set_link("delay_samples", delay_samples)

    def set_stream_offset_samples(self, stream_offset_samples: int | Sequence[int]) -> None:
        """Set the offsets between the clients' transmit and receive streams in whole samples."""
        self._set_link("stream_offset_samples", stream_offset_samples)

    def set_cfo_hz(self, cfo_hz: Numbers) -> None:
        """Set the carrier frequency offsets of the clients' oscillators in Hz."""
        self._set_link("cfo_hz", cfo_hz)

    def set_clock_ppm(self, clock_ppm: Numbers) -> None:
        """Set the clocks' rate errors; the accumulated drift stays."""
        self._set_link("clock_ppm", clock_ppm)

    def set_clock_walk_ppm(self, clock_walk_ppm: Numbers) -> None:
        """Set the standard deviations of the clocks' random walks after one second in ppm."""
        self._set_link("clock_walk_ppm", clock_walk_ppm)

    def set_coherence_samples(self, coherence_samples: int) -> None:
        """Set after how many samples new fading is drawn; 0 for never."""
        self._channel.set_coherence_samples(coherence_samples)

    def set_snr_db(self, snr_db: float | Sequence[float | None] | None) -> None:
        """Set the SNR of a unit subcarrier in dB; None for no noise."""
        self._set_receiver("snr_db", snr_db)

    def set_noise_alpha(self, noise_alpha: Numbers) -> None:
        """Set the exponent of the noise: 2 is Gaussian, smaller values give impulsive noise."""
        self._set_receiver("noise_alpha", noise_alpha)

    def set_adc_bits(self, adc_bits: int | Sequence[int]) -> None:
        """Set the resolution of the converter in bits; 0 for no converter."""
        self._set_receiver("adc_bits", adc_bits)

    def set_adc_full_scale(self, adc_full_scale: Numbers) -> None:
        """Set the amplitude at which the converter clips."""
        self._set_receiver("adc_full_scale", adc_full_scale)

    def _set_link(self, name: str, value: Any) -> None:
        with self._lock:
            self._channel.set_links(with_each(self._channel.links, **{name: value}))

    def _set_receiver(self, name: str, value: Any) -> None:
        with self._lock:
            self._channel.set_receivers(with_each(self._channel.receivers, **{name: value}))

    def start(self) -> bool:
        self._channel.reset()
        return True

    def _on_redraw(self, _message: Any) -> None:
        self._channel.redraw()

    def work(self, input_items: Any, output_items: Any) -> int:
        bad = self._channel.bad_samples
        try:
            self.pass_on(input_items, output_items)
        except Exception as error:  # an exception that leaves work() would end the thread and hang the flowgraph
            self._drops.add(str(error))
            self._channel.reset()
            for out in output_items:
                out[:] = 0
        if not bad and self._channel.bad_samples:
            self.logger.warn("NaN or infinite samples were replaced with zeros (further ones are counted, not logged)")
        return len(output_items[0])


def with_each(all_of_them: Sequence[Settings], **changes: Any) -> list[Settings]:
    """Return links or receivers with changed settings; a single value goes to all of them, a list has one for each."""
    changed = list(all_of_them)
    for name, value in changes.items():
        single = isinstance(value, str) or not isinstance(value, Sequence | np.ndarray)
        values = [value] * len(changed) if single else list(value)
        allowed = f"one value or one for each of {len(changed)}"
        require(len(values) == len(changed), name, f"{len(values)} values", allowed)
        if name == "adc_bits":
            values = [integer(name, bits, 0, 24) or None for bits in values]
        changed = [dataclasses.replace(one, **{name: each}) for one, each in zip(changed, values, strict=True)]
    return changed

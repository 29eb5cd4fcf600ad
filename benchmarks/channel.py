# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the uplink and downlink channels with GNU Radio's C++ channel model, in flowgraphs of the same shape.

The streams are those of a round: a trigger from the server, then silence; silence from a client, then its answer.
"""

from __future__ import annotations

import numpy as np
from gnuradio import blocks, channels, gr
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds
from oac_blocks.blocks.broadcast_channel import broadcast_channel
from oac_blocks.blocks.multiple_access_channel import multiple_access_channel
from oac_blocks.dsp.channel.fading import PROFILES, impulse_responses
from oac_blocks.dsp.channel.noise import complex_gaussian

ROUND_SAMPLES = 262_144
ROUNDS = 48  # so many that starting and stopping the flowgraph does not matter
TRIGGER_SAMPLES, ANSWER_SAMPLES = 280, 75_000
SAMPLE_RATE_HZ, SNR_DB, PPM, CFO_HZ = 20e6, 20.0, 20.0, 1000.0


def one_round(loud_samples: int) -> list[complex]:
    x = np.zeros(ROUND_SAMPLES, np.complex64)
    x[:loud_samples] = complex_gaussian(loud_samples, 1.0, np.random.default_rng(1)) if loud_samples else 0
    return x.tolist()


class Flow:
    """Send the same round over and over into all inputs of a block, and its outputs into null sinks."""

    def __init__(self, samples: list[complex], block: gr.basic_block, inputs: int, outputs: int) -> None:
        self.block = block
        self.head = blocks.head(gr.sizeof_gr_complex, ROUNDS * ROUND_SAMPLES)
        self.sinks = [blocks.null_sink(gr.sizeof_gr_complex) for _ in range(outputs)]
        self.top_block = gr.top_block()
        self.top_block.connect(blocks.vector_source_c(samples, True), self.head)
        for i in range(inputs):
            self.top_block.connect(self.head, (block, i))
        for i, sink in enumerate(self.sinks):
            self.top_block.connect((block, i), sink)

    def run(self) -> None:
        self.head.reset()
        self.top_block.run()


def channel_model(echoes: bool) -> gr.basic_block:
    """Make one link with noise, clock and oscillator; its clock does not drift, and its fading is fixed."""
    taps = np.ones(1)
    if echoes:
        rng = np.random.default_rng(1)
        taps = impulse_responses(1, PROFILES["epa"], "rayleigh", SAMPLE_RATE_HZ, rng)[0]
    noise_voltage = 10 ** (-SNR_DB / 20)
    return channels.channel_model(
        noise_voltage, CFO_HZ / SAMPLE_RATE_HZ, 1 + 1e-6 * PPM, taps.astype(complex).tolist(), 1
    )


def up() -> gr.basic_block:
    """Make the channel of two clients, with the server's own trigger as a third input."""
    return multiple_access_channel(
        3,
        SAMPLE_RATE_HZ,
        SNR_DB,
        gain_db=[0.0, 0.0, -6.0],
        fading=["rayleigh", "rayleigh", "none"],
        profile=["epa", "epa", "flat"],
        cfo_hz=[CFO_HZ, -CFO_HZ, 0.0],
        clock_ppm=[PPM, -PPM, 0.0],
    )


def down(snr_db: float | None = SNR_DB) -> gr.basic_block:
    return broadcast_channel(
        2, SAMPLE_RATE_HZ, snr_db, fading="rayleigh", profile="epa", cfo_hz=[CFO_HZ, -CFO_HZ], clock_ppm=[PPM, -PPM]
    )


def main(console: Console) -> None:
    silent, trigger, answer, loud = map(one_round, (0, TRIGGER_SAMPLES, ANSWER_SAMPLES, ROUND_SAMPLES))
    copy, model = "blocks.copy (C++)", "channels.channel_model (C++), one link"
    flows = {
        copy: Flow(trigger, blocks.copy(gr.sizeof_gr_complex), 1, 1),
        model: Flow(trigger, channel_model(echoes=False), 1, 1),
        "the same with echoes": Flow(trigger, channel_model(echoes=True), 1, 1),
        "oac_broadcast_channel, 2 clients, silence": Flow(silent, down(), 1, 2),
        "the same without noise": Flow(silent, down(None), 1, 2),
        f"2 clients, {TRIGGER_SAMPLES} samples loud": Flow(trigger, down(), 1, 2),
        "2 clients, always loud": Flow(loud, down(), 1, 2),
        "oac_multiple_access_channel, 2 + 1, silence": Flow(silent, up(), 3, 1),
        f"2 + 1, {ANSWER_SAMPLES:,} samples loud": Flow(answer, up(), 3, 1),
        "2 + 1, always loud": Flow(loud, up(), 3, 1),
    }
    seconds = median_seconds({name: flow.run for name, flow in flows.items()}, turns=5)
    table = Table(title=f"Channels: {ROUNDS} rounds of {ROUND_SAMPLES:,} samples, {PPM:g} ppm, echoes, noise")
    for heading in ("block", "Msps", f"of {copy}", "of channel_model"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for name, value in seconds.items():
        rate = ROUNDS * ROUND_SAMPLES / value / 1e6
        table.add_row(name, f"{rate:.1f}", f"{seconds[copy] / value:.2f}", f"{seconds[model] / value:.2f}")
    console.print(table)

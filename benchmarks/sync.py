# SPDX-License-Identifier: GPL-3.0-or-later
"""The sync detector's speed beside GNU Radio's own C++ blocks, in flowgraphs of the same shape."""

from __future__ import annotations

import numpy as np
from gnuradio import blocks, digital, gr
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds
from oac_blocks.dsp.preamble import trigger
from oac_blocks.sync_detector import sync_detector

ROUND_SAMPLES = 262_144  # one trigger in each
ROUNDS = 48  # so that starting and stopping the flowgraph does not count


def one_round(cfo_rad: float = 0.03, snr_db: float = 10.0) -> np.ndarray:
    """A trigger in white noise."""
    rng = np.random.default_rng(1)
    x = np.sqrt(0.5 / 10 ** (snr_db / 10)) * rng.standard_normal((ROUND_SAMPLES, 2)).view(np.complex128)[:, 0]
    x[1000 : 1000 + len(trigger())] += trigger() * np.exp(1j * cfo_rad * np.arange(len(trigger())))
    return x.astype(np.complex64)


class Receiver:
    """The same rounds over and over, through one block into a null sink."""

    def __init__(self, samples: list[complex], block: gr.basic_block, item_bytes: tuple[int, ...]) -> None:
        self.block = block
        self.head = blocks.head(gr.sizeof_gr_complex, ROUNDS * ROUND_SAMPLES)
        source = blocks.vector_source_c(samples, True)
        self.sinks = [blocks.null_sink(size) for size in item_bytes]
        self.top_block = gr.top_block()
        self.top_block.connect(source, self.head, block)
        for i, sink in enumerate(self.sinks):
            self.top_block.connect((block, i), sink)

    def run(self) -> None:
        self.head.reset()
        self.top_block.run()


def main(console: Console) -> None:
    samples = one_round().tolist()
    complex_out = (gr.sizeof_gr_complex,)
    copy, reference = "blocks.copy (C++)", "digital.ofdm_sync_sc_cfb (C++)"
    tracking = sync_detector()
    receivers = {
        copy: Receiver(samples, blocks.copy(gr.sizeof_gr_complex), complex_out),
        reference: Receiver(samples, digital.ofdm_sync_sc_cfb(256, 64), (gr.sizeof_float, gr.sizeof_char)),
        "digital.corr_est_cc (C++)": Receiver(samples, digital.corr_est_cc(trigger().tolist(), 2, 1, 0.9), complex_out),
        "oac_sync_detector, tracking": Receiver(samples, tracking, complex_out),
        "oac_sync_detector, bank of 7": Receiver(samples, sync_detector(tracking=False), complex_out),
    }
    seconds = median_seconds({name: receiver.run for name, receiver in receivers.items()}, turns=5)
    if tracking.detections < ROUNDS - 1:
        raise RuntimeError(f"the detector found {tracking.detections} of {ROUNDS} triggers")
    table = Table(title=f"Sync: {ROUNDS} rounds of {ROUND_SAMPLES:,} samples, one trigger each")
    for heading in ("block", "Msps", f"of {copy}", f"of {reference}"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for name, value in seconds.items():
        rate = ROUNDS * ROUND_SAMPLES / value / 1e6
        table.add_row(name, f"{rate:.1f}", f"{seconds[copy] / value:.2f}", f"{seconds[reference] / value:.2f}")
    console.print(table)

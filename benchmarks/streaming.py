# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare each block that sits in a radio's stream with GNU Radio's own C++ blocks on the same rounds."""

from __future__ import annotations

import numpy as np
from gnuradio import blocks, digital, gr
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds
from oac_blocks.blocks.client_transceiver import client_transceiver
from oac_blocks.blocks.server_receiver import server_receiver
from oac_blocks.blocks.sync_detector import sync_detector
from oac_blocks.dsp import Numerology
from oac_blocks.dsp.preamble import trigger
from oac_blocks.dsp.waveform.answer import payload_answer
from oac_blocks.dsp.waveform.round_layout import RoundLayout

VOTES = 21_880
ROUND_SAMPLES = 262_144
ROUNDS = 48  # so many that starting and stopping the flowgraph does not matter
COPY, REFERENCE = "blocks.copy (C++)", "digital.ofdm_sync_sc_cfb (C++)"


def one_round(clients: int, snr_db: float = 20.0) -> list[complex]:
    """Make the server's trigger and a frame of every client at its time; a unit subcarrier has this SNR."""
    rng = np.random.default_rng(1)
    layout = RoundLayout(Numerology(), clients)
    noise = np.sqrt(0.5 / 10 ** (snr_db / 10))
    x = noise * rng.standard_normal((ROUND_SAMPLES, 2)).view(np.complex128)[:, 0]
    first = 1000
    x[first : first + len(trigger())] += trigger()
    for client in range(clients):
        votes = rng.choice(np.array([-1, 1], np.int8), VOTES)
        answer = payload_answer(votes, client, layout, rng) * np.exp(2j * np.pi * rng.random())
        begin = first + layout.answer_samples
        x[begin : begin + len(answer)] += answer
    return x.astype(np.complex64).tolist()


class Receiver:
    """Send the same rounds over and over into one block, and its outputs into null sinks."""

    def __init__(self, samples: list[complex], block: gr.basic_block, *item_bytes: int) -> None:
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
    two, ten, fifty = (one_round(clients) for clients in (2, 10, 50))
    tracking, client, server = sync_detector(), client_transceiver(wait_for_orders=False), server_receiver(2)
    complex_bytes = gr.sizeof_gr_complex
    receivers = {
        COPY: Receiver(two, blocks.copy(complex_bytes), complex_bytes),
        REFERENCE: Receiver(two, digital.ofdm_sync_sc_cfb(256, 64), gr.sizeof_float, gr.sizeof_char),
        "digital.corr_est_cc (C++)": Receiver(two, digital.corr_est_cc(trigger().tolist(), 2, 1, 0.9), complex_bytes),
        "oac_sync_detector, tracking": Receiver(two, tracking, complex_bytes),
        "oac_sync_detector, bank of 7": Receiver(two, sync_detector(tracking=False), complex_bytes),
        "oac_client_transceiver": Receiver(two, client, complex_bytes),
        "oac_server_receiver, 2 clients": Receiver(two, server),
        "oac_server_receiver, 10 clients": Receiver(ten, server_receiver(10)),
        "oac_server_receiver, 50 clients": Receiver(fifty, server_receiver(50)),
    }
    seconds = median_seconds({name: receiver.run for name, receiver in receivers.items()}, turns=5)
    # A run begins where the source stopped, in the middle of a round.
    for name, found in (("detector", tracking.detections), ("client", client.triggers), ("server", server.rounds)):
        if found < ROUNDS - 1:
            raise RuntimeError(f"the {name} found {found} of {ROUNDS} triggers")
    table = Table(title=f"Streams: {ROUNDS} rounds of {ROUND_SAMPLES:,} samples, a trigger and {VOTES:,} votes in each")
    for heading in ("block", "Msps", f"of {COPY}", f"of {REFERENCE}"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for name, value in seconds.items():
        rate = ROUNDS * ROUND_SAMPLES / value / 1e6
        table.add_row(name, f"{rate:.1f}", f"{seconds[COPY] / value:.2f}", f"{seconds[REFERENCE] / value:.2f}")
    console.print(table)

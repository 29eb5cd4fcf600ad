# SPDX-License-Identifier: GPL-3.0-or-later
"""The server receiver's speed beside GNU Radio's own C++ blocks, all on the same rounds."""

from __future__ import annotations

import numpy as np
from gnuradio import blocks, digital, gr
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds
from oac_blocks.dsp import Numerology, frame, fsk_mv, ofdm
from oac_blocks.dsp.preamble import shared_slot, trigger
from oac_blocks.dsp.rounds import RoundLayout
from oac_blocks.server_receiver import server_receiver

NUM = Numerology()
VOTES = 21_880
ROUND_SAMPLES = 262_144
ROUNDS = 48  # so that starting and stopping the flowgraph does not count


def one_round(clients: int, snr_db: float = 20.0) -> np.ndarray:
    """The server's trigger, and a frame of every client where it is wanted; a unit subcarrier has this SNR."""
    rng = np.random.default_rng(1)
    layout = RoundLayout(NUM, clients)
    noise = np.sqrt(0.5 / 10 ** (snr_db / 10))
    x = noise * rng.standard_normal((ROUND_SAMPLES, 2)).view(np.complex128)[:, 0]
    x[1000 : 1000 + len(trigger())] += trigger()
    votes = rng.choice(np.array([-1, 1], np.int8), (clients, VOTES))
    payload = ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)
    phases = np.exp(2j * np.pi * rng.random((clients, 1)))
    burst = np.sum(phases * frame.assemble(payload, shared_slot(clients, NUM), layout.frame(VOTES)), axis=0)
    first = 1000 + layout.answer_samples
    x[first : first + len(burst)] += burst
    return x.astype(np.complex64)


class Receiver:
    """The same rounds over and over into one block; what comes out of it goes to null sinks."""

    def __init__(self, samples: list[complex], block: gr.basic_block, item_bytes: tuple[int, ...] = ()) -> None:
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
    samples = {clients: one_round(clients).tolist() for clients in (2, 10, 50)}
    copy, reference = "blocks.copy (C++)", "digital.ofdm_sync_sc_cfb (C++)"
    ours = {f"oac_server_receiver, {clients} clients": clients for clients in samples}
    receivers = {
        copy: Receiver(samples[2], blocks.copy(gr.sizeof_gr_complex), (gr.sizeof_gr_complex,)),
        reference: Receiver(
            samples[2], digital.ofdm_sync_sc_cfb(NUM.fft_size, NUM.cp_samples), (gr.sizeof_float, gr.sizeof_char)
        ),
    }
    receivers |= {name: Receiver(samples[clients], server_receiver(clients)) for name, clients in ours.items()}
    seconds = median_seconds({name: receiver.run for name, receiver in receivers.items()}, turns=5)
    for name in ours:
        heard = receivers[name].block.rounds
        if heard < ROUNDS - 1:  # a run begins where the source stood, in the middle of a round
            raise RuntimeError(f"{name} heard {heard} of {ROUNDS} rounds")
    title = f"Server receiver: {ROUNDS} rounds of {ROUND_SAMPLES:,} samples, k = {VOTES:,} votes, clients at 20 dB"
    table = Table(title=title)
    for heading in ("block", "Msps", f"of {copy}", f"of {reference}"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for name, value in seconds.items():
        rate = ROUNDS * ROUND_SAMPLES / value / 1e6
        table.add_row(name, f"{rate:.1f}", f"{seconds[copy] / value:.2f}", f"{seconds[reference] / value:.2f}")
    console.print(table)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the DSP core with GNU Radio's C++ FFT and cyclic-prefix blocks, and with real time."""

from __future__ import annotations

import numpy as np
from gnuradio import blocks, digital, fft, gr
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds
from oac_blocks.dsp import Numerology, channel, fsk_mv, ofdm

K = 21_880  # 20 % of the CNN's 109,402 parameters
NUM = Numerology()
BURSTS_IN_A_FLOWGRAPH = 100  # so many that starting and stopping the flowgraph does not matter


def random_votes(clients: int) -> np.ndarray:
    return np.random.default_rng(1).choice(np.array([-1, 1], np.int8), (clients, K))


class Flowgraph:
    """Run a chain of blocks over a given number of items."""

    def __init__(self, source: gr.basic_block, item_bytes: int, items: int, *chain: gr.basic_block) -> None:
        self.head = blocks.head(item_bytes, items)
        self.top_block = gr.top_block()
        self.top_block.connect(source, self.head, *chain)

    def run(self) -> None:
        self.head.reset()
        self.top_block.run()


def gnuradio_transmitter(grid: np.ndarray) -> Flowgraph:
    """Make a chain of inverse FFT, scaling and prefix for a mapped grid; no votes, no random phases."""
    spectrum = np.zeros((len(grid), NUM.fft_size), np.complex64)
    spectrum[:, NUM.active_bins()] = grid
    return Flowgraph(
        blocks.vector_source_c(spectrum.ravel().tolist(), True, NUM.fft_size),
        gr.sizeof_gr_complex * NUM.fft_size,
        BURSTS_IN_A_FLOWGRAPH * len(grid),
        fft.fft_vcc(NUM.fft_size, False, (), True, 1),
        blocks.multiply_const_vcc([1 / 16] * NUM.fft_size),
        digital.ofdm_cyclic_prefixer(NUM.fft_size, NUM.symbol_samples),
        blocks.null_sink(gr.sizeof_gr_complex),
    )


def gnuradio_receiver(burst: np.ndarray) -> Flowgraph:
    """Make a chain of prefix removal, FFT and energies; no scaling, no differences."""
    return Flowgraph(
        blocks.vector_source_c(burst.tolist(), True),
        gr.sizeof_gr_complex,
        BURSTS_IN_A_FLOWGRAPH * len(burst),
        blocks.keep_m_in_n(gr.sizeof_gr_complex, NUM.fft_size, NUM.symbol_samples, NUM.cp_samples),
        blocks.stream_to_vector(gr.sizeof_gr_complex, NUM.fft_size),
        fft.fft_vcc(NUM.fft_size, True, (), True, 1),
        blocks.complex_to_mag_squared(NUM.fft_size),
        blocks.null_sink(gr.sizeof_float * NUM.fft_size),
    )


def against_gnuradio(console: Console) -> None:
    rng = np.random.default_rng(2)
    votes = random_votes(1)[0]
    grid = fsk_mv.encode(votes, NUM, rng)
    burst = ofdm.modulate(grid, NUM)
    transmitter, receiver = gnuradio_transmitter(grid), gnuradio_receiver(burst)

    def ours_out() -> None:
        for _ in range(BURSTS_IN_A_FLOWGRAPH):
            ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)

    def ours_in() -> None:
        for _ in range(BURSTS_IN_A_FLOWGRAPH):
            fsk_mv.detect(ofdm.demodulate(burst, NUM), K, NUM)

    seconds = median_seconds(
        {
            "encode + modulate": ours_out,
            "GNU Radio: inverse FFT + prefix": transmitter.run,
            "demodulate + detect": ours_in,
            "GNU Radio: prefix removal + FFT + energy": receiver.run,
        }
    )
    table = Table(title=f"One burst of k = {K:,} votes ({len(grid)} symbols), one client")
    for heading in ("work", "ms a burst", "Msps", "ours is faster by"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    names = list(seconds)
    for ours, theirs in ((names[0], names[1]), (names[2], names[3])):
        for name in (ours, theirs):
            a_burst = seconds[name] / BURSTS_IN_A_FLOWGRAPH
            ratio = f"{seconds[theirs] / seconds[ours]:.2f} x" if name == ours else ""
            table.add_row(name, f"{1e3 * a_burst:.3f}", f"{len(burst) / a_burst / 1e6:.0f}", ratio)
    console.print(table)


def against_real_time(console: Console) -> None:
    table = Table(title=f"k = {K:,} votes as a multiple of real time at {NUM.sample_rate_hz / 1e6:.0f} Msps, one core")
    for heading in ("clients", "encode + modulate", "channel (20 ppm, EPA, noise)", "demodulate + detect"):
        table.add_column(heading, justify="right")
    for clients in (1, 10, 50):
        multiples = real_time_multiples(clients)
        table.add_row(str(clients), *(f"{multiple:.2f} x" for multiple in multiples))
    console.print(table)
    console.print("Encoding and channel are those of all clients together, the server detects once.")


def real_time_multiples(clients: int) -> list[float]:
    rng = np.random.default_rng(3)
    votes = random_votes(clients)
    bursts = ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM)
    clocks_ppm = np.linspace(20, -20, clients)
    links = [channel.Link(fading="rayleigh", profile="epa", clock_ppm=ppm) for ppm in clocks_ppm]
    receiver = channel.Receiver(snr_db=20)
    seconds = median_seconds(
        {
            "out": lambda: ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM),
            "air": lambda: channel.transmit(bursts, links, receiver, NUM.sample_rate_hz, rng),
            "in": lambda: fsk_mv.detect(ofdm.demodulate(bursts[0], NUM), K, NUM),
        }
    )
    return [bursts.shape[1] / NUM.sample_rate_hz / seconds[name] for name in ("out", "air", "in")]


def main(console: Console) -> None:
    against_gnuradio(console)
    against_real_time(console)

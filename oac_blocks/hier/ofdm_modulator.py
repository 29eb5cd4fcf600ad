# SPDX-License-Identifier: GPL-3.0-or-later
"""Modulate subcarriers to samples with GNU Radio's C++ FFT and cyclic prefixer."""

from __future__ import annotations

from typing import Any

import numpy as np
from gnuradio import blocks, digital, fft, gr

from oac_blocks.blocks.support.bursts import BUFFER_SYMBOLS, tag_name
from oac_blocks.dsp.waveform.numerology import Numerology


class _Placer(gr.sync_block):
    """Put the active subcarriers at their positions in the whole, shifted spectrum, with zeros elsewhere."""

    def __init__(self, num: Numerology) -> None:
        gr.sync_block.__init__(
            self,
            name="OAC subcarrier placer",
            in_sig=[(np.complex64, num.active_subcarriers)],
            out_sig=[(np.complex64, num.fft_size)],
        )
        self._half = num.active_subcarriers // 2
        self._first_left, self._first_right = (int(num.active_bins()[i]) for i in (0, self._half))
        self.set_min_output_buffer(BUFFER_SYMBOLS)

    def work(self, input_items: Any, output_items: Any) -> int:
        grid, spectrum, half = input_items[0], output_items[0], self._half
        spectrum[:] = 0
        spectrum[:, self._first_left : self._first_left + half] = grid[:, :half]
        spectrum[:, self._first_right : self._first_right + half] = grid[:, half:]
        return len(spectrum)


def _prefixer(num: Numerology) -> Any:
    if not num.cp_samples:
        return blocks.vector_to_stream(gr.sizeof_gr_complex, num.fft_size)
    prefixer = digital.ofdm_cyclic_prefixer(num.fft_size, num.symbol_samples)
    # The prefixer copies the tags itself, and GNU Radio would add each of them a second time.
    prefixer.set_tag_propagation_policy(gr.TPP_DONT)
    return prefixer


class ofdm_modulator(gr.hier_block2):  # noqa: N801 (GNU Radio's way of naming blocks)
    """OFDM modulator: takes vectors of the active subcarriers and outputs samples with a cyclic prefix.

    The transform is unitary: a subcarrier of energy 1 has energy 1 in the samples. Tags stay with their symbol. The
    length tag counts symbols at the input and samples at the output.
    """

    def __init__(
        self,
        fft_size: int = 256,
        cp_samples: int = 64,
        active_subcarriers: int = 192,
        dc_nulls: int = 8,
        length_tag: str = "packet_len",
    ) -> None:
        num = Numerology(
            fft_size=fft_size, cp_samples=cp_samples, active_subcarriers=active_subcarriers, dc_nulls=dc_nulls
        )
        gr.hier_block2.__init__(
            self,
            "OAC OFDM Modulator",
            gr.io_signature(1, 1, gr.sizeof_gr_complex * num.active_subcarriers),
            gr.io_signature(1, 1, gr.sizeof_gr_complex),
        )
        self._placer = _Placer(num)
        # GNU Radio's FFT does not scale its output, but its window can do so at no cost.
        transform = fft.fft_vcc(num.fft_size, False, [num.fft_size**-0.5] * num.fft_size, True, 1)
        to_samples = blocks.tagged_stream_multiply_length(
            gr.sizeof_gr_complex, tag_name(length_tag), num.symbol_samples
        )
        prefixer = _prefixer(num)
        transform.set_min_output_buffer(BUFFER_SYMBOLS)
        prefixer.set_min_output_buffer(BUFFER_SYMBOLS * num.symbol_samples)
        to_samples.set_min_output_buffer(BUFFER_SYMBOLS * num.symbol_samples)
        self.connect(self, self._placer, transform, prefixer, to_samples, self)

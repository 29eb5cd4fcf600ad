# SPDX-License-Identifier: GPL-3.0-or-later
"""Demodulate samples to subcarriers with GNU Radio's C++ FFT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pmt
from gnuradio import fft, gr

from oac_blocks.blocks.support.bursts import BUFFER_SYMBOLS, Drops, tag_name
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform.numerology import Numerology


class _Cutter(gr.basic_block):
    """Cut symbols without their prefixes from the stream, counted from each length tag; skip samples between bursts."""

    def __init__(self, num: Numerology, length_tag: str) -> None:
        gr.basic_block.__init__(
            self, name="OAC symbol cutter", in_sig=[np.complex64], out_sig=[(np.complex64, num.fft_size)]
        )
        self._num = num
        self._length_tag = length_tag
        self._symbols_left = 0
        # Position of the last length tag in use: work() may see it again if no symbol followed it yet.
        self._begun_at = -1
        self.early_samples = 0
        self.drops = Drops(self.logger, "a burst")
        self.set_min_output_buffer(BUFFER_SYMBOLS)
        self.set_relative_rate(1 / num.symbol_samples)
        self.set_tag_propagation_policy(gr.TPP_DONT)

    def start(self) -> bool:
        """Reset the block, because a flowgraph that is started again counts its samples from 0."""
        self._symbols_left, self._begun_at = 0, -1
        return True

    def forecast(self, noutput_items: int, _ninputs: int) -> list[int]:
        return [noutput_items * self._num.symbol_samples]

    def general_work(self, input_items: Any, output_items: Any) -> int:
        samples, bodies, size = input_items[0], output_items[0], self._num.symbol_samples
        first, position, produced = self.nitems_read(0), 0, 0
        tags = sorted(self.get_tags_in_window(0, 0, len(samples)), key=lambda tag: tag.offset)
        starts = [tag for tag in tags if pmt.symbol_to_string(tag.key) == self._length_tag]
        while True:
            starts = [tag for tag in starts if tag.offset > self._begun_at]
            next_start = starts[0].offset - first if starts else len(samples)
            if not self._symbols_left:
                position = next_start
                if not starts:
                    break
                self._symbols_left = self._begin(starts[0], produced)
                continue
            n = min(self._symbols_left, len(bodies) - produced, (next_start - position) // size)
            if not n:
                if not starts or produced == len(bodies):
                    break
                self.drops.add(f"a new burst began while {self._symbols_left} symbols of the last one were missing")
                self._symbols_left = 0
                continue
            begin = self._num.cp_samples - self.early_samples
            rows = samples[position : position + n * size].reshape(n, size)
            bodies[produced : produced + n] = rows[:, begin : begin + self._num.fft_size]
            self._move_tags(tags, first + position, n, produced)
            position, produced, self._symbols_left = position + n * size, produced + n, self._symbols_left - n
        self.consume(0, position)
        return produced

    def _begin(self, tag: Any, produced: int) -> int:
        """Return the number of symbols in the burst that begins here; 0 if its length is invalid."""
        self._begun_at = tag.offset
        samples, size = (pmt.to_long(tag.value) if pmt.is_integer(tag.value) else 0), self._num.symbol_samples
        if samples < size or samples % size:
            self.drops.add(f"tag {self._length_tag} must be a positive multiple of {size} samples, got {tag.value}")
            return 0
        self._add_tag(produced, tag.key, pmt.from_long(samples // size))
        return samples // size

    def _move_tags(self, tags: list[Any], begin: int, n: int, produced: int) -> None:
        size = self._num.symbol_samples
        for tag in tags:
            inside = begin <= tag.offset < begin + n * size
            if inside and pmt.symbol_to_string(tag.key) != self._length_tag:
                self._add_tag(produced + (tag.offset - begin) // size, tag.key, tag.value)

    def _add_tag(self, index: int, key: Any, value: Any) -> None:
        self.add_item_tag(0, self.nitems_written(0) + index, key, value)


class _Picker(gr.sync_block):
    """Select the active subcarriers of a whole, shifted spectrum, and remove the phase ramp of an early window."""

    def __init__(self, num: Numerology) -> None:
        gr.sync_block.__init__(
            self,
            name="OAC subcarrier picker",
            in_sig=[(np.complex64, num.fft_size)],
            out_sig=[(np.complex64, num.active_subcarriers)],
        )
        self._half = num.active_subcarriers // 2
        self._first_left, self._first_right = (int(num.active_bins()[i]) for i in (0, self._half))
        self.ramp: Any = None
        self.set_min_output_buffer(BUFFER_SYMBOLS)

    def work(self, input_items: Any, output_items: Any) -> int:
        spectrum, grid, half, ramp = input_items[0], output_items[0], self._half, self.ramp
        grid[:, :half] = spectrum[:, self._first_left : self._first_left + half]
        grid[:, half:] = spectrum[:, self._first_right : self._first_right + half]
        if ramp is not None:
            grid *= ramp
        return len(grid)


class ofdm_demodulator(gr.hier_block2):  # noqa: N801 (GNU Radio's way of naming blocks)
    """OFDM demodulator: takes samples and outputs vectors of the active subcarriers; the inverse of the modulator.

    A burst begins at its length tag, which counts samples and must be a multiple of the symbol length. At the output
    the tag counts symbols. Other tags stay with their symbol, and samples between bursts are skipped. ``early_samples``
    moves the FFT window into the prefix and removes the resulting phase ramp, so that a burst that arrives a little
    early is still received whole.
    """

    def __init__(
        self,
        fft_size: int = 256,
        cp_samples: int = 64,
        active_subcarriers: int = 192,
        dc_nulls: int = 8,
        early_samples: int = 0,
        length_tag: str = "packet_len",
    ) -> None:
        self._num = num = Numerology(
            fft_size=fft_size, cp_samples=cp_samples, active_subcarriers=active_subcarriers, dc_nulls=dc_nulls
        )
        gr.hier_block2.__init__(
            self,
            "OAC OFDM Demodulator",
            gr.io_signature(1, 1, gr.sizeof_gr_complex),
            gr.io_signature(1, 1, gr.sizeof_gr_complex * num.active_subcarriers),
        )
        self._cutter = _Cutter(num, tag_name(length_tag))
        # GNU Radio's FFT does not scale its output, but its window can do so at no cost.
        transform = fft.fft_vcc(num.fft_size, True, [num.fft_size**-0.5] * num.fft_size, True, 1)
        transform.set_min_output_buffer(BUFFER_SYMBOLS)
        self._picker = _Picker(num)
        self.set_early_samples(early_samples)
        self.connect(self, self._cutter, transform, self._picker, self)

    @property
    def early_samples(self) -> int:
        """Return how far into the prefix the window begins, in samples."""
        return self._cutter.early_samples

    def set_early_samples(self, early_samples: int) -> None:
        """Set how far into the prefix the window begins, 0 to cp_samples. It may change within a burst."""
        early = integer("early_samples", early_samples, 0, self._num.cp_samples)
        ramp = np.exp(2j * np.pi * self._num.subcarrier_frequencies() * early).astype(np.complex64)
        self._cutter.early_samples, self._picker.ramp = early, ramp if early else None

    @property
    def dropped(self) -> int:
        """Return the number of bursts of invalid length and of bursts that were cut short."""
        return self._cutter.drops.count

# SPDX-License-Identifier: GPL-3.0-or-later
"""Output the last values of a slow stream as vectors for a scrolling plot."""

from __future__ import annotations

from typing import Any

import numpy as np
from gnuradio import gr

from oac_blocks.blocks.support.plot_vectors import COPIES
from oac_blocks.dsp.checks import integer


class recent_values(gr.interp_block):  # noqa: N801 (GNU Radio's way of naming blocks)
    """Recent values: outputs, twice for each input float, a vector of the last ``values`` floats, newest last.

    GNU Radio's time sink shows nothing until it has as many items as it plots, which takes half a minute at a few items
    per second. A vector sink behind this block scrolls with every item. Until enough items have arrived, the first item
    fills the missing places.
    """

    def __init__(self, values: int = 100) -> None:
        self._values = integer("values", values, 2, 65_536)
        out = [(np.float32, self._values)]
        gr.interp_block.__init__(self, name="OAC Recent Values", in_sig=[np.float32], out_sig=out, interp=COPIES)
        self._recent: Any = None

    def start(self) -> bool:
        self._recent = None
        return True

    def work(self, input_items: Any, output_items: Any) -> int:
        out = output_items[0]
        new = input_items[0][: len(out) // COPIES]
        if self._recent is None:
            self._recent = np.full(self._values, new[0], np.float32)
        line = np.concatenate([self._recent, new])
        windows = np.lib.stride_tricks.sliding_window_view(line, self._values)[1:]
        for copy in range(COPIES):
            out[copy::COPIES] = windows
        self._recent = line[-self._values :]
        return len(out)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Output the first values of each PDU as a vector, to plot them against their index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oac_blocks.blocks.support.plot_vectors import VectorOfPdu
from oac_blocks.dsp.checks import integer, require


class first_values(VectorOfPdu):  # noqa: N801 (GNU Radio's way of naming blocks)
    """First values: outputs a vector of the first ``values`` values of each PDU.

    Message port ``pdus`` takes PDUs of float32, such as gradient entries. A PDU with fewer values is dropped and
    counted, and the first one is logged. Each vector is written twice, because GNU Radio's vector sink needs it.
    """

    def __init__(self, values: int = 64) -> None:
        self._values = integer("values", values, 2, 65_536)
        VectorOfPdu.__init__(self, "OAC First Values", self._values)

    def vector_of(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        require(len(values) >= self._values, "data", f"{len(values)} values", f"at least {self._values} values")
        return values[: self._values]

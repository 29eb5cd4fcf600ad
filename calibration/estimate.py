# SPDX-License-Identifier: GPL-3.0-or-later
"""A measured value and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """Arrays of one shape. ``sigma`` is the standard deviation by the bound, at the SNR as it was measured.

    NaN stands for what was not heard.
    """

    value: Floats
    sigma: Floats

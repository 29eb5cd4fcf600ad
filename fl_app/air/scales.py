# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what clients report of their entries, and the scale that all of them apply.

All clients of a scaled scheme multiply by one scale, such that a typical entry has unit energy on a subcarrier. A
client reports the RMS and the peak of its entries when it is ready, and the server's "go" carries the scale. These are
a few numbers over the control link, and nothing is kept from round to round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.waveform.schemes import Scheme

Reports = npt.NDArray[np.float64]

LEAST_RMS = 1e-30  # RMS assumed for entries that are all zero; the noise on them then vanishes too


def reports(entries: npt.NDArray[Any], least: float = LEAST_RMS) -> tuple[Reports, Reports]:
    """Return what clients report of their entries (participants, k): RMS, summed in float64, and largest magnitude."""
    squares = [float(np.einsum("i,i->", row, row, dtype=np.float64)) / row.size for row in entries]
    peaks = [max(float(row.max()), -float(row.min())) for row in entries]
    return np.maximum(np.sqrt(squares), least), np.maximum(peaks, least)


def scale_of_reports(scheme: Scheme, rms: Reports, peak: Reports) -> float:
    """Return the scale that all clients apply, from what each of them reports; 1 for votes."""
    return scheme.common_scale(np.maximum(rms, LEAST_RMS), np.maximum(peak, LEAST_RMS)) if scheme.scaled else 1.0


def common_scale(scheme: Scheme, payload: npt.NDArray[Any]) -> float:
    """Return the scale that all clients apply to these payloads (participants, k); 1 for votes."""
    return scale_of_reports(scheme, *reports(payload)) if scheme.scaled else 1.0

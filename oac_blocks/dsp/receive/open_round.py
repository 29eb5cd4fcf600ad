# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the samples of a round that is still arriving at the server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.receive import acquisition
from oac_blocks.dsp.receive.detection import Detection
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.dsp.waveform.round_layout import Kind, RoundLayout


@dataclass(frozen=True)
class ExpectedRound:
    """Hold what the server knows of a round before its trigger arrives."""

    round: int
    kind: Kind
    votes: int


class OpenRound:
    """A round whose samples are still arriving: samples ``first`` to ``stop`` of the stream are needed.

    ``earliest`` is the end of the round before.
    """

    def __init__(self, expected: ExpectedRound, detection: Detection, layout: RoundLayout, earliest: int) -> None:
        self.expected, self.detection, self.earliest = expected, detection, earliest
        self.frame: FrameLayout | None = None
        self.wanted_at = layout.answer_at(detection.time_samples)
        self.first, self.stop = self.wanted_at, 0
        if expected.kind == "payload":
            self.frame = layout.frame(expected.votes)
            self.stop = self.wanted_at + self.frame.samples
        else:
            self.first -= acquisition.MARGIN_SAMPLES
            self.stop = self.wanted_at + acquisition.samples_needed(layout)
        self.samples = np.zeros(self.stop - self.first, np.complex64)

    @property
    def fraction(self) -> float:
        """Return the fraction of the trigger's arrival, and so of the nominal arrival of answers: -0.5 to 0.5."""
        return self.detection.time_samples - round(self.detection.time_samples)

    def take(self, samples: npt.NDArray[np.complex64], at: int) -> None:
        """Copy the needed part of these samples, the first of which has the index ``at``."""
        begin, stop = max(at, self.first), min(at + len(samples), self.stop)
        if begin < stop:
            self.samples[begin - self.first : stop - self.first] = samples[begin - at : stop - at]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the samples of a round, from before its trigger to its end, so that a receiver can hear the round once more.

The search for triggers works in spans and remembers its last hits. A capture therefore begins where a span begins, two
spans before the trigger or earlier, and holds what the search remembered there. A second receiver that resumes there
finds the same trigger at the same fraction of a sample.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.receive.tracking import SearchMark

Samples = npt.NDArray[np.complex64]
_LEAD_SPANS = 2  # the first span after a mark differs in rounding, because silence stands for what was before it


@dataclass(frozen=True, eq=False)
class Capture:
    """The samples of one round. The first one has the index ``mark.sample`` in the stream.

    Where the answers come before the search has decided on the trigger, the search may need silence behind them.
    """

    samples: Samples
    mark: SearchMark  # what the search remembered before the first sample
    settings: dict[str, Any] = field(default_factory=dict)  # those of the receiver, as ``ServerStream`` takes them


class StreamTail:
    """Hold the last samples of a stream, at least as many as a round needs before its trigger is decided.

    Parameters
    ----------
    span_samples, latency_samples : int
        Of the search for triggers.
    """

    def __init__(self, span_samples: int, latency_samples: int) -> None:
        self._lead = _LEAD_SPANS * span_samples
        self._reach = latency_samples + self._lead
        self._marks: deque[SearchMark] = deque()
        self._parts: deque[Samples] = deque()
        self._first = self._end = 0

    def restart(self, mark: SearchMark) -> None:
        """Forget all samples; the next one is that of the mark."""
        self._marks = deque([mark])
        self._parts.clear()
        self._first = self._end = mark.sample

    def take(self, samples: Samples) -> None:
        """Append a copy of these samples."""
        self._parts.append(samples.copy())
        self._end += len(samples)

    def note(self, mark: SearchMark) -> None:
        """Note where a span begins, and drop the samples that no coming round can need."""
        if mark.sample > self._marks[-1].sample:
            self._marks.append(mark)
        while len(self._marks) > 1 and self._marks[1].sample <= self._end - self._reach:
            self._marks.popleft()
        while self._parts and self._first + len(self._parts[0]) <= self._marks[0].sample:
            self._first += len(self._parts.popleft())

    def cut(self, trigger_sample: float, not_before: int) -> Capture:
        """Return the samples of the round with this trigger, up to the last one that was taken.

        ``not_before`` is the end of the round before, whose trigger must not be found once more.
        """
        before = [mark for mark in self._marks if mark.sample < not_before]
        usable = [mark for mark in self._marks if mark.sample >= not_before]
        early = [mark for mark in usable if mark.sample <= trigger_sample - self._lead]
        if early:
            mark = early[-1]
        elif before and not (usable and usable[0].sample <= trigger_sample):
            mark = replace(before[-1], sample=not_before)  # the round before ended in the span of this trigger
        else:
            mark = usable[0]
        return Capture(np.concatenate(self._parts)[mark.sample - self._first :], mark)

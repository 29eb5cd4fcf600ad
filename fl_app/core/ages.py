# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the age of update of each entry as the round of its last update, with the number of entries of each round.

A round then costs nothing for the entries that were not sent: only the clock goes on. Mean age, highest age and the age
of the k oldest follow from the counts, without a pass over the entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.pools.pool import negative_age

COMPILED_FROM = 1 << 20  # entries from which on compiled loops save more than the half second that loading them takes
_CHUNK = 1 << 20  # entries that are counted at a time: numpy counts wide copies of them


class Ages:
    """Hold A_t of d entries, one byte each while all entries were sent within 255 rounds.

    Attributes
    ----------
    last : ndarray
        Round of the last update of each entry, counted from some round on: larger is younger. The type is the smallest
        unsigned integer that holds it.
    counts : ndarray
        Number of entries with each value of `last`, from 0 to `now`.
    now : int
        The value that an entry of age 0 has.
    """

    def __init__(self, age: NDArray[Any]) -> None:
        """age: the age of each entry, as integers from 0 on."""
        if age.min() < 0:
            raise negative_age(age.min())
        self.now = int(age.max())
        kind = np.min_scalar_type(self.now)
        self.last: NDArray[Any] = np.subtract(kind.type(self.now), age, dtype=kind, casting="unsafe")
        self.counts: NDArray[np.int64] = np.zeros(self.now + 1, np.int64)
        for begin in range(0, age.size, _CHUNK):
            self.counts += np.bincount(self.last[begin : begin + _CHUNK], minlength=self.counts.size)

    @classmethod
    def zeros(cls, d: int) -> Ages:
        """Return d entries of age 0."""
        return cls(np.zeros(d, np.uint8))

    @property
    def d(self) -> int:
        return int(self.last.size)

    def update(self, selected: NDArray[np.int64]) -> None:
        """Make each entry a round older, and give the selected ones, all different, age 0."""
        if selected.size and (selected.min() < 0 or selected.max() >= self.d):
            raise ValueError(f"selected must hold indices in 0..{self.d - 1}, not {selected.min()}..{selected.max()}")
        self.skip()
        if self.d >= COMPILED_FROM:
            from fl_app.core.pools import kernels

            kernels.refresh(self.last, selected, self.last.dtype.type(self.now), self.counts)
        else:
            self.counts -= np.bincount(self.last[selected], minlength=self.counts.size)
            self.last[selected] = self.now
        self.counts[self.now] += selected.size

    def skip(self) -> None:
        """Make each entry a round older."""
        if self.now == np.iinfo(self.last.dtype).max:
            self._make_room()
        self.now += 1
        self.counts = np.append(self.counts, 0)

    def _make_room(self) -> None:
        """Count the rounds from the oldest entry on; if that frees less than half of the range, take a wider type."""
        oldest = self._oldest()
        self.last -= self.last.dtype.type(oldest)
        self.counts, self.now = self.counts[oldest:], self.now - oldest
        if self.now > np.iinfo(self.last.dtype).max // 2:
            self.last = self.last.astype(np.min_scalar_type(2 * np.iinfo(self.last.dtype).max))

    def _oldest(self) -> int:
        return int(np.flatnonzero(self.counts)[0])

    def mean(self) -> float:
        """Return the mean age."""
        total = int(self.counts @ np.arange(self.now, -1, -1))
        return total / self.d

    def max(self) -> int:
        """Return the highest age."""
        return self.now - self._oldest()

    def array(self) -> NDArray[np.int32]:
        """Return the ages as integers."""
        age = self.last.astype(np.int32)
        return np.subtract(np.int32(self.now), age, out=age)

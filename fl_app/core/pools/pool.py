# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what a selection policy asks of a pool of entries: the largest, the oldest, random ones, the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Pool(ABC):
    """Hold the d entries of a round, with their gradient memory and their ages, and mark some of them.

    A mask is whatever the pool makes of it: booleans, bits or a tensor. Two masks can be joined with ``|``. Every pool
    draws ties from the same generator in the same way, so that all pools mark the same entries.
    """

    @abstractmethod
    def everything(self) -> Any:
        """Mark all entries."""

    @abstractmethod
    def others(self, mask: Any) -> Any:
        """Mark the entries that are not in the mask."""

    @abstractmethod
    def largest(self, count: int) -> Any:
        """Mark the `count` entries of largest magnitude; equal magnitudes at the threshold have equal chances."""

    @abstractmethod
    def oldest(self, count: int, among: Any) -> Any:
        """Mark the `count` oldest entries of a mask; equal ages at the threshold have equal chances."""

    @abstractmethod
    def random(self, count: int, among: Any) -> Any:
        """Mark `count` entries of a mask; every subset has the same probability."""

    @abstractmethod
    def indices(self, mask: Any) -> Any:
        """Return the indices of a mask, sorted. Values that cannot be ordered raise ValueError at the latest here."""


def unordered(nan_entries: int, d: int) -> ValueError:
    """Return the error for a gradient memory that holds NaN."""
    return ValueError(f"g has {nan_entries} NaN entries of {d}: they cannot be ordered")


def negative_age(smallest: int) -> ValueError:
    """Return the error for an age below 0."""
    return ValueError(f"age must not be negative, but its smallest entry is {smallest}")

# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the layout of a burst: the payload is split into a few groups, each with its own sync symbol in front.

A burst may last tens of milliseconds. The sync symbol in front of each group lets the server track time and phase
within the burst. All offsets and lengths in a burst are computed in this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import complex_array, integer, require
from oac_blocks.dsp.waveform.numerology import Numerology

ComplexArray = npt.NDArray[np.complex64]


@dataclass(frozen=True)
class FrameLayout:
    """Describe a burst of ``payload_symbols`` in ``groups`` groups of nearly equal size.

    A payload of fewer symbols than ``groups`` has one group per symbol.
    """

    payload_symbols: int
    num: Numerology = field(default_factory=Numerology)
    groups: int = 4

    def __post_init__(self) -> None:
        integer("payload_symbols", self.payload_symbols, 1)
        integer("groups", self.groups, 1)
        object.__setattr__(self, "groups", min(self.groups, self.payload_symbols))

    @property
    def symbols(self) -> int:
        """Return the number of payload and sync symbols together."""
        return self.payload_symbols + self.groups

    @property
    def samples(self) -> int:
        """Return the length of the burst in samples."""
        return self.symbols * self.num.symbol_samples

    @property
    def seconds(self) -> float:
        """Return the length of the burst in seconds."""
        return self.samples / self.num.sample_rate_hz

    def group_symbols(self) -> npt.NDArray[np.int64]:
        """Return the number of payload symbols in each group; the first groups take the remainder."""
        quotient, remainder = divmod(self.payload_symbols, self.groups)
        return quotient + (np.arange(self.groups) < remainder).astype(np.int64)

    def sync_symbols(self) -> npt.NDArray[np.int64]:
        """Return the positions of the sync symbols, counted in symbols from the start of the burst."""
        sizes = self.group_symbols()
        return np.cumsum(sizes) - sizes + np.arange(self.groups)

    def sync_starts_samples(self) -> npt.NDArray[np.int64]:
        """Return the position of the first sample (of the prefix) of each sync symbol."""
        return self.sync_symbols() * self.num.symbol_samples

    def group_starts_samples(self) -> npt.NDArray[np.int64]:
        """Return the position of the first sample (of the prefix) of each group's payload."""
        return self.sync_starts_samples() + self.num.symbol_samples

    def is_sync(self) -> npt.NDArray[np.bool_]:
        """Return one flag for each symbol of the burst: true for a sync symbol."""
        flags = np.zeros(self.symbols, bool)
        flags[self.sync_symbols()] = True
        return flags


def assemble(payload: npt.ArrayLike, sync: npt.ArrayLike, layout: FrameLayout) -> ComplexArray:
    """Return the burst that holds these payload samples and this sync symbol.

    Parameters
    ----------
    payload : complex array of shape (..., payload_symbols * symbol_samples)
    sync : complex array of shape (symbol_samples,) or (..., symbol_samples)
        One sync symbol for all payloads, or one for each.
    layout : FrameLayout

    Returns
    -------
    complex64 array of shape (..., layout.samples)
    """
    size = layout.num.symbol_samples
    payload, sync = complex_array("payload", payload), complex_array("sync", sync)
    expected = layout.payload_symbols * size
    require(payload.shape[-1] == expected, "payload", f"{payload.shape[-1]} samples", f"{expected} samples long")
    require(sync.shape[-1] == size, "sync", f"{sync.shape[-1]} samples", f"one symbol of {size} samples")
    alike = sync.ndim == 1 or sync.shape[:-1] == payload.shape[:-1]
    require(alike, "sync", f"shape {sync.shape}", f"one symbol, or one for each payload of shape {payload.shape}")
    burst = np.empty((*payload.shape[:-1], layout.symbols, size), np.complex64)
    is_sync = layout.is_sync()
    burst[..., is_sync, :] = sync[..., None, :]
    burst[..., ~is_sync, :] = payload.reshape(*payload.shape[:-1], -1, size)
    return burst.reshape(*payload.shape[:-1], -1)


def payload_of(burst: npt.ArrayLike, layout: FrameLayout) -> ComplexArray:
    """Return the payload's samples (..., payload_symbols * symbol_samples) of a burst."""
    return _symbols(burst, layout)[..., ~layout.is_sync(), :].reshape(*np.shape(burst)[:-1], -1)


def syncs_of(burst: npt.ArrayLike, layout: FrameLayout) -> ComplexArray:
    """Return the sync symbols (..., groups, symbol_samples) of a burst."""
    return _symbols(burst, layout)[..., layout.is_sync(), :]


def _symbols(burst: npt.ArrayLike, layout: FrameLayout) -> ComplexArray:
    array = complex_array("burst", burst)
    length = array.shape[-1]
    require(length >= layout.samples, "burst", f"{length} samples", f"at least {layout.samples} samples long")
    return array[..., : layout.samples].reshape(*array.shape[:-1], layout.symbols, layout.num.symbol_samples)

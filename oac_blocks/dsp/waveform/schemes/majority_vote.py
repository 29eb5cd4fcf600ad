# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the majority vote by frequency-shift keying (``fsk-mv``, ``onebit``).

Clients vote on the sign of each entry, and the server compares energies. It needs neither the phase nor the channel,
so the clients' clocks may differ by as much as the cyclic prefix tolerates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform import fsk_mv
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.schemes.base import Floats, Grid, PackedField, Payload, Scheme
from oac_blocks.dsp.waveform.schemes.bits import pack_bits, packed_bytes, unpack_bits


class MajorityVote(Scheme):
    """Majority vote; payloads are int8 votes -1, 0 or +1, received values are soft votes with the majority's sign.

    Examples
    --------
    >>> class Bold(oac.MajorityVote):  # a client votes on entries above 1 alone
    ...     name = "bold"
    ...     def payload_of(self, entries, coins, abstain_below=0.0):
    ...         return super().payload_of(entries, coins, max(abstain_below, 1.0))
    >>> Bold().payload_of(np.float32([0.5, -2, 3]), np.random.default_rng(1))
    array([ 0, -1,  1], dtype=int8)
    """

    name = "onebit"
    dtype: np.dtype[Any] = np.dtype(np.int8)
    coherent = False
    scaled = False
    repeatable = True
    decides = True

    def payload_of(self, entries: Floats, coins: np.random.Generator, abstain_below: float = 0.0) -> Payload:
        """Return the signs of the entries; 0 (abstain) below ``abstain_below``, a random sign for an exact zero."""
        return fsk_mv.quantise(entries, coins, abstain_below)

    def check(self, payload: Payload) -> Payload:
        require(payload.dtype == np.int8, "payload", payload.dtype, "int8 votes in onebit mode")
        low, high = (int(payload.min()), int(payload.max())) if payload.size else (0, 0)
        require(low >= -1 and high <= 1, "payload", f"values from {low} to {high}", "votes -1, 0 or +1")
        return payload

    def random_payload(self, k: int, rng: np.random.Generator) -> Payload:
        return rng.integers(0, 2, k, np.int8) * np.int8(2) - np.int8(1)

    def entries_per_symbol(self, num: Numerology) -> int:
        return num.votes_per_symbol

    def encode(
        self,
        payload: Payload,
        num: Numerology,
        *,
        rng: np.random.Generator | None = None,
        repeats: int = 1,
        scale: float = 1.0,  # noqa: ARG002 (a vote has unit energy)
        precoding: npt.ArrayLike | None = None,  # noqa: ARG002 (energies need none)
    ) -> Grid:
        return fsk_mv.encode(payload, num, rng, repeats)

    def detect(
        self,
        grid: Grid,
        k: int,
        num: Numerology,
        *,
        repeats: int = 1,
        scale: float = 1.0,  # noqa: ARG002
        clients: int = 1,  # noqa: ARG002
        mean_gain: float = 1.0,  # noqa: ARG002
    ) -> Floats:
        """Return energy for minus energy against, the mean over the copies."""
        return fsk_mv.detect(grid, k, num, repeats) / np.float32(repeats)

    @property
    def waveform(self) -> str:
        return "onebit"

    def energies(self, grid: Grid, k: int, num: Numerology, *, repeats: int = 1) -> Floats:
        return fsk_mv.energies(grid, k, num, repeats)

    def combine(self, payload: Payload) -> Floats:
        return payload.sum(axis=0, dtype=np.int32).astype(np.float32)

    def direction(self, memory: npt.NDArray[Any]) -> Floats:
        """Return the signs. The soft votes stay in g, because some policies sort by them."""
        return np.sign(memory).astype(np.float32, copy=False)

    def remember(self, g: Floats) -> npt.NDArray[Any]:
        return np.sign(g).astype(np.int8)

    @property
    def memory_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int8)

    def downlink_fields(self, k: int) -> tuple[PackedField, ...]:
        """Return one bit per entry, and a second one if some entries are exactly zero."""
        size = packed_bytes(k)
        return PackedField("signs", "uint8", size), PackedField("zeros", "uint8", size, optional=True)

    def pack(self, fresh: Floats) -> dict[str, npt.NDArray[Any]]:
        zeros = fresh == 0
        packed: dict[str, npt.NDArray[Any]] = {"signs": pack_bits(fresh > 0)}
        # A zero comes from an air without noise if all clients abstained. Zeros are sent only if they occur.
        if zeros.any():
            packed["zeros"] = pack_bits(zeros)
        return packed

    def unpack(self, arrays: Mapping[str, npt.NDArray[Any]], k: int) -> npt.NDArray[Any]:
        signs = np.where(unpack_bits(arrays["signs"], k), np.int8(1), np.int8(-1))
        if "zeros" in arrays:
            signs[unpack_bits(arrays["zeros"], k)] = 0
        return signs

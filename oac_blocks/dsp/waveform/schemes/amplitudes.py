# SPDX-License-Identifier: GPL-3.0-or-later
"""Define analog aggregation (``analog``): entries are subcarrier amplitudes, and the channel adds up the gradients.

Clients rotate their phases by a channel estimate from a pilot and apply one common scale. The received values are
equation (7) of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import finite, require
from oac_blocks.dsp.waveform import analog
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.schemes.base import Floats, Grid, PackedField, Payload, Scheme


class Analog(Scheme):
    """Analog aggregation; payloads are float32 gradient entries, received values estimate their mean.

    Examples
    --------
    >>> oac.Analog().combine(np.float32([[1, -4], [3, 0]]))  # what a perfect channel delivers
    array([ 2., -2.], dtype=float32)
    """

    name = "analog"
    dtype: np.dtype[Any] = np.dtype(np.float32)
    coherent = True
    scaled = True
    repeatable = False
    decides = False

    def payload_of(
        self,
        entries: Floats,
        coins: np.random.Generator,  # noqa: ARG002 (nothing is decided)
        abstain_below: float = 0.0,  # noqa: ARG002 (a small entry is sent as what it is)
    ) -> Payload:
        return entries

    def check(self, payload: Payload) -> Payload:
        require(payload.dtype in (np.float32, np.float64), "payload", payload.dtype, "float32 entries in analog mode")
        finite("payload", payload)
        return payload.astype(np.float32, copy=False)

    def common_scale(self, rms: npt.NDArray[np.float64], peak: npt.NDArray[np.float64]) -> float:  # noqa: ARG002
        """Return the amplitude of an entry of 1: a subcarrier has unit energy in the mean over all clients."""
        return analog.common_scale(float(np.sqrt(np.mean(np.square(rms)))))

    def random_payload(self, k: int, rng: np.random.Generator) -> Payload:
        return rng.standard_normal(k, np.float32)

    def entries_per_symbol(self, num: Numerology) -> int:
        return num.entries_per_symbol

    def encode(
        self,
        payload: Payload,
        num: Numerology,
        *,
        rng: np.random.Generator | None = None,  # noqa: ARG002 (phases carry the sign)
        repeats: int = 1,  # noqa: ARG002 (not repeatable)
        scale: float = 1.0,
        precoding: npt.ArrayLike | None = None,
    ) -> Grid:
        return analog.encode(payload, num, scale, precoding)

    def detect(
        self,
        grid: Grid,
        k: int,
        num: Numerology,
        *,
        repeats: int = 1,  # noqa: ARG002
        scale: float = 1.0,
        clients: int = 1,
        mean_gain: float = 1.0,
    ) -> Floats:
        return analog.decode(grid, k, num, scale, clients, mean_gain)

    def combine(self, payload: Payload) -> Floats:
        return payload.mean(axis=0, dtype=np.float64).astype(np.float32)

    def direction(self, memory: npt.NDArray[Any]) -> Floats:
        return memory

    def remember(self, g: Floats) -> npt.NDArray[Any]:
        return g

    @property
    def memory_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def downlink_fields(self, k: int) -> tuple[PackedField, ...]:
        return (PackedField("values", "float32", k),)

    def pack(self, fresh: Floats) -> dict[str, npt.NDArray[Any]]:
        return {"values": fresh}

    def unpack(self, arrays: Mapping[str, npt.NDArray[Any]], k: int) -> npt.NDArray[Any]:  # noqa: ARG002
        return arrays["values"]

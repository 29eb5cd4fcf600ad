# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the order that the server adds to a training message: which entries a client sends, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.sending import payload_of_update
from fl_app.flower.layout import Arrays, update_of
from oac_blocks.dsp.waveform.schemes import scheme_from_outside

ORDER = "over-the-air"  # key of the ConfigRecord of an order, and of the ConfigRecord of an answer
PAYLOAD = "over-the-air.payload"  # name of the payload among the arrays of an answer


@dataclass(frozen=True)
class RoundOrder:
    """Hold the values of an order, all of types that a ConfigRecord takes."""

    t: int
    seed: int
    client: int  # number of the client on the air, where its node has no partition-id
    scheme: str
    local_lr: float
    abstain_below: float
    names: list[str]  # the arrays on the air, in the order of their entries
    selected: bytes  # S_t, one bit for each entry

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RoundOrder:
        """Return the order that `record` holds; ValueError if this is no order."""
        try:
            return cls(**record)
        except TypeError as error:
            raise ValueError(
                f"the order of the server has the keys {sorted(record)}: server and clients need the same gr-oac"
            ) from error

    def record(self) -> dict[str, Any]:
        """Return the values by name."""
        return asdict(self)

    def for_client(self, client: int) -> dict[str, Any]:
        """Return the record of the same order for another client."""
        return {**self.record(), "client": client}

    def payload(self, before: Arrays, after: Arrays, client: int) -> NDArray[Any] | None:
        """Return what a client sends that was given the arrays `before` and trained them to `after`.

        None if an entry is not finite: the client then sends nothing.
        """
        update = update_of(before, after, self.names, self.local_lr)
        selected = unpacked(self.selected, update.size)
        scheme = scheme_from_outside(self.scheme)
        return payload_of_update(update, selected, scheme, self.abstain_below, self.seed, self.t, client)


def packed(selected: NDArray[np.int64], d: int) -> bytes:
    """Return a selection as bits."""
    mask = np.zeros(d, np.bool_)
    mask[selected] = True
    return np.packbits(mask).tobytes()


def unpacked(bits: bytes, d: int) -> NDArray[np.bool_]:
    """Return S_t as d booleans; ValueError if the bits are of another d."""
    if len(bits) != -(-d // 8):
        raise ValueError(f"the selection has {len(bits)} bytes, but {d} entries need {-(-d // 8)}")
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=d).astype(np.bool_)

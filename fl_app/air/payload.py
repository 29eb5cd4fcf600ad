# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this what clients may hand to an air? Every air asks the same before it sends."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Mode, Unseen
from oac_blocks.dsp.checks import finite, integer, require


def check_payload(
    payload: npt.ArrayLike | Unseen, clients: npt.ArrayLike, t: int, mode: Mode, n_clients: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The payload (participants, k), float32 entries or int8 votes, and the clients' numbers, or a ValueError."""
    integer("t", t, 0)
    require(not isinstance(payload, Unseen), "payload", "not known here", "the payloads of all clients")
    numbers, array = np.asarray(clients), np.asarray(payload)
    allowed = f"distinct client numbers from 0 to {n_clients - 1}, at least one"
    require(numbers.ndim == 1 and numbers.size > 0, "clients", f"shape {numbers.shape}", allowed)
    require(numbers.dtype.kind in "iu", "clients", numbers.dtype, allowed)
    inside = bool(np.all((numbers >= 0) & (numbers < n_clients)))
    require(inside and len(np.unique(numbers)) == len(numbers), "clients", numbers.tolist(), allowed)
    shape = f"of shape ({len(numbers)} participants, k >= 1)"
    fits = array.ndim == 2 and array.shape[0] == len(numbers) and array.shape[1] > 0
    require(fits, "payload", f"shape {array.shape}", shape)
    return (_votes(array) if mode == "onebit" else _entries(array)), numbers.astype(np.int64, copy=False)


def _votes(array: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    require(array.dtype == np.int8, "payload", array.dtype, "int8 votes in onebit mode")
    low, high = int(array.min()), int(array.max())
    require(low >= -1 and high <= 1, "payload", f"values from {low} to {high}", "votes -1, 0 or +1")
    return array


def _entries(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    require(array.dtype in (np.float32, np.float64), "payload", array.dtype, "float32 entries in analog mode")
    finite("payload", array)
    return array.astype(np.float32, copy=False)

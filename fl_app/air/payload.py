# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the payload and the client numbers; every air does this before it transmits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Unseen
from oac_blocks.dsp.checks import integer, require
from oac_blocks.dsp.waveform.schemes import Scheme


def check_payload(
    payload: npt.ArrayLike | Unseen, clients: npt.ArrayLike, t: int, scheme: Scheme, n_clients: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the payload (participants, k) in the scheme's type, and the clients' numbers; ValueError if wrong."""
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
    return scheme.check(array), numbers.astype(np.int64, copy=False)

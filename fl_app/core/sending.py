# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what a client sends of its update: the entries where S_t = 1, in the scheme's type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl_app.core.streams import stream
from oac_blocks.dsp.waveform.schemes import Scheme


def payload_of_update(
    total: NDArray[np.float32],
    selected: NDArray[Any],
    scheme: Scheme,
    abstain_below: float,
    seed: int,
    t: int,
    client: int,
) -> NDArray[Any] | None:
    """Return the payload (k,) of a client in round t; None if the update is not finite, and the client sends nothing.

    Parameters
    ----------
    total
        The client's update (d,): the sum of its local directions.
    selected
        The indices where S_t = 1, or S_t itself as booleans.
    scheme, abstain_below
        How entries become a payload, and the magnitude below which a client does not vote.
    seed, t, client
        The coins that decide ties follow from these.
    """
    if not np.isfinite(total).all():
        return None
    return scheme.payload_of(total[selected], stream(seed, "coins", t, client), abstain_below)

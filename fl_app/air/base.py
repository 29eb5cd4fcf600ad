# SPDX-License-Identifier: GPL-3.0-or-later
"""What every air offers, be it a formula, a simulated waveform, a flowgraph or radios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Mode = Literal["analog", "onebit"]


@dataclass(frozen=True)
class Uplink:
    """What the server has of a round after the clients have spoken."""

    received: npt.NDArray[np.float32]  # (k,): analog, the estimate of equation (7); onebit, the soft votes
    symbols: int  # OFDM symbols used, sync symbols included
    air_seconds: float
    snr_db: float | None = None  # as measured by the server; None where nothing is measured
    pmepr_db: float | None = None  # 99.9 % point over the clients' symbols; None where there is no waveform
    unheard: int = 0  # clients that were to send, and whose payload did not get there, or not all of it

    @property
    def heard_all(self) -> bool:
        """Only then is it known what should have come out."""
        return self.unheard == 0


class Air(Protocol):
    """The channel adds up what the clients send. One call is one round."""

    mode: Mode

    def uplink(self, payload: npt.NDArray[Any], clients: npt.NDArray[np.int64], t: int) -> Uplink:
        """Send ``payload`` (participants, k) of the clients with these numbers in round t, all at once.

        Float32 gradient entries in ``analog`` mode, int8 votes -1, 0, +1 in ``onebit`` mode. Any k from 1 on; round 0
        sends all d entries. Randomness comes from ``fl_app.core.streams`` by the run's seed and t.
        """
        ...

    def state(self) -> dict[str, Any]:
        """What a resumed run must know (JSON): clocks that have walked, say."""
        ...

    def load_state(self, state: dict[str, Any]) -> None: ...

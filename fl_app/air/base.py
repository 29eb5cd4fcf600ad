# SPDX-License-Identifier: GPL-3.0-or-later
"""What every air offers, be it a formula, a simulated waveform, a flowgraph or radios."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.schemes import Scheme


@dataclass(frozen=True, eq=False)
class Uplink:
    """What the server has of a round after the clients have transmitted."""

    received: npt.NDArray[np.float32]  # (k,): what the scheme detects: soft votes, or the estimate of equation (7)
    heard: npt.NDArray[np.int64]  # numbers of the clients whose whole payload is in ``received``
    symbols: int  # OFDM symbols used, sync symbols included
    air_seconds: float
    snr_db: float | None = None  # as measured by the server; None where nothing is measured
    pmepr_db: float | None = None  # 99.9 % point over the clients' symbols; None where there is no waveform
    of_heard: npt.NDArray[np.bool_] | None = None  # (k,): entries of the clients heard alone; None if all are

    def entries_of_heard(self) -> npt.NDArray[np.bool_]:
        """Return which entries (k,) hold the payloads of the clients heard and of no other client.

        A client that got lost between two bursts of a round is in some entries and not among those heard.
        """
        return np.ones(len(self.received), np.bool_) if self.of_heard is None else self.of_heard


@dataclass(frozen=True)
class Unseen:
    """Payloads of k entries each that the server never has: every client hands its own to its own radio."""

    k: int


class Air(ABC):
    """The channel adds up what the clients send. One call of ``uplink`` is one round.

    An air is a context manager: ``open`` starts what it needs (a flowgraph, radios), ``close`` ends it. The defaults
    do nothing, and an air without memory has no state.

        with make_air(settings, n_clients, seed) as air:
            uplink = air.uplink(payload, clients, t)
    """

    scheme: Scheme

    def open(self) -> None:  # noqa: B027 (an air that needs nothing has nothing to open)
        """Get ready for the first round. May be called again after ``close``."""

    def close(self) -> None:  # noqa: B027
        """End what ``open`` has started. May be called twice."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def uplink(self, payload: npt.NDArray[Any] | Unseen, clients: npt.NDArray[np.int64], t: int) -> Uplink:
        """Transmit the payloads of these clients in round t, all at once.

        Parameters
        ----------
        payload : array of shape (participants, k), or Unseen
            What the scheme's ``check`` accepts: float32 gradient entries, int8 votes. Any k from 1 on; round 0 sends
            all d entries.
        clients : int64 array of shape (participants,)
            Numbers of the clients, in the order of the rows.
        t : int
            The round. Random draws come from ``fl_app.core.streams`` by the run's seed and t.

        Returns
        -------
        Uplink
            What was received, and which of the clients were heard.
        """

    def state(self) -> dict[str, Any]:
        """Return what a resumed run must know, as JSON: clocks that have walked, say."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from ``state``, as an earlier run has returned it."""
        require(state == {}, "state", state, "empty: this air remembers nothing")

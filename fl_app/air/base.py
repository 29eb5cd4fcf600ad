# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the interface of every air: a formula, a simulated waveform, a flowgraph or radios."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fl_app.air.observed import Observation
from oac_blocks.dsp.checks import require
from oac_blocks.dsp.waveform.schemes import Scheme


@dataclass(frozen=True, eq=False)
class Uplink:
    """Hold what the server has of a round after the clients have transmitted.

    Attributes
    ----------
    received : float32 array of shape (k,)
        What the scheme detects: soft votes, or the estimate of equation (7).
    heard : int64 array
        Numbers of the clients whose whole payload is in ``received``.
    symbols : int
        Number of OFDM symbols used, sync symbols included.
    air_seconds : float
        Duration of these symbols.
    snr_db : float, optional
        SNR as the server measures it; None if nothing is measured.
    pmepr_db : float, optional
        Peak-to-mean envelope power ratio, 99 % point over the clients' symbols; None if there is no waveform.
    of_heard : bool array of shape (k,), optional
        True for an entry that holds the payloads of the heard clients alone; None if all entries do.
    client_seconds : float, optional
        Time that a client transmits, averaged over the clients; None if all of them transmit all of ``air_seconds``.

    Examples
    --------
    >>> uplink = oac.Uplink(np.float32([2, -2, 0]), heard=np.arange(2), symbols=3, air_seconds=48e-6)
    >>> uplink.entries_of_heard()
    array([ True,  True,  True])
    """

    received: npt.NDArray[np.float32]
    heard: npt.NDArray[np.int64]
    symbols: int
    air_seconds: float
    snr_db: float | None = None
    pmepr_db: float | None = None
    of_heard: npt.NDArray[np.bool_] | None = None
    client_seconds: float | None = None

    def of_someone(self) -> npt.NDArray[np.float32] | None:
        """Return the received values; None if no client was heard, so that they are noise alone."""
        return self.received if self.heard.size else None

    def entries_of_heard(self) -> npt.NDArray[np.bool_]:
        """Return which entries (k,) hold the payloads of the clients heard and of no other client.

        A client that is lost between two bursts of a round is in some entries, but is not one of the clients heard.
        """
        return np.ones(len(self.received), np.bool_) if self.of_heard is None else self.of_heard


@dataclass(frozen=True)
class Unseen:
    """Stand for payloads of k entries that the server never has: every client gives its payload to its own radio."""

    k: int


class Air(ABC):
    """Add up what the clients send. One call of ``uplink`` is one round.

    An air is a context manager: ``open`` starts what the air needs (a flowgraph, radios), and ``close`` ends it. The
    default methods do nothing, and an air without memory has no state.

    Examples
    --------
    >>> class Loudest(oac.Air):
    ...     def uplink(self, payload, clients, t):
    ...         row = np.abs(payload).max(axis=0) == np.abs(payload)
    ...         return oac.Uplink(np.where(row, payload, 0).sum(axis=0), clients, symbols=1, air_seconds=16e-6)
    >>> with Loudest() as air:
    ...     air.uplink(np.float32([[1, -5], [-3, 2]]), np.arange(2), t=0).received
    array([-3., -5.], dtype=float32)
    """

    scheme: Scheme

    def open(self) -> None:  # noqa: B027 (an air that needs nothing has nothing to open)
        """Prepare for the first round. This may be called again after ``close``."""

    def close(self) -> None:  # noqa: B027
        """End what ``open`` has started. This may be called twice."""

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
            Values that the scheme's ``check`` accepts, such as float32 gradient entries or int8 votes. k is 1 or more;
            round 0 sends all d entries.
        clients : int64 array of shape (participants,)
            Numbers of the clients, in the order of the rows.
        t : int
            The round. Random draws come from ``fl_app.core.streams`` by the run's seed and t.

        Returns
        -------
        Uplink
            The received values, and the numbers of the clients that were heard.
        """

    def observe(self) -> Observation | None:
        """Describe the last round for displays; None if this air has nothing to tell. This changes nothing."""
        return None

    def state(self) -> dict[str, Any]:
        """Return the state that a resumed run needs, as JSON values: drifted clocks, for example."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from ``state``, which an earlier run has returned."""
        require(state == {}, "state", state, "empty: this air has no state")

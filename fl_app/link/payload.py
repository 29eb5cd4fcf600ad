# SPDX-License-Identifier: GPL-3.0-or-later
"""How the payloads of a round's clients get into the air: the one place where the control link and the air meet.

The server says in its welcome whether it wants the payload itself (`payload_here`). If so, it comes with the client's
`done`, and the server hands all payloads to `air.uplink`: the way of the airs that are software. Otherwise the client
gives its payload to its own radio (an `Outlet`), says `done` without it, and the server hears the sum from its own
receiver.
"""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray


class Outlet(Protocol):
    """A client's way out for a payload that is ready."""

    def hand_over(self, round_: int, payload: NDArray[Any]) -> NDArray[Any] | None:
        """Take the payload of this round. Returns what the server is to get with `done`; None: nothing."""
        ...


class ToServer:
    """The payload goes to the server over the control link."""

    def hand_over(self, round_: int, payload: NDArray[Any]) -> NDArray[Any] | None:  # noqa: ARG002
        return payload

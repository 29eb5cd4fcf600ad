# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of the analog loopback, in lock step: gather, pilot, payload, and only then the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pmt
from gnuradio import gr

from oac_blocks.bench.flows.analog_messages import Entries, Go, Payload, read_go, read_payload
from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.bursts import Drops
from oac_blocks.dsp.checks import require
from oac_blocks.rounds.messages import Call

_MOST_ROUNDS = 2


class _Round:
    def __init__(self) -> None:
        self.go: Go | None = None
        self.payloads: dict[int, Entries] = {}


class Gathering:
    """What has come of a round: its go, and the payloads of those who take part, in any order.

    It holds two rounds at most: a message of a third makes it forget the first.
    """

    def __init__(self, clients: int, most_entries: int) -> None:
        self._clients, self._most_entries = clients, most_entries
        self._rounds: dict[Call, _Round] = {}

    def take_go(self, go: Go) -> None:
        """ValueError if this flowgraph cannot do that."""
        wanted = f"one for each of {self._clients} clients"
        require(len(go.takes_part) == self._clients, "takes_part", f"{len(go.takes_part)} values", wanted)
        require(go.entries <= self._most_entries, "entries", go.entries, f"at most {self._most_entries} in a burst")
        self._round(go.call).go = go

    def take_payload(self, payload: Payload) -> None:
        """ValueError if there is no such client."""
        allowed = f"a client's number from 0 to {self._clients - 1}"
        require(payload.client < self._clients, "client", payload.client, allowed)
        self._round(payload.call).payloads[payload.client] = payload.entries

    def whole(self) -> tuple[Go, list[Entries]] | None:
        """A round of which all is there, with a row for every client, zeros for those who take no part.

        ValueError if the payloads do not fit the go. Either way the round is then forgotten.
        """
        for call, round_ in self._rounds.items():
            if round_.go is not None and round_.payloads.keys() >= round_.go.senders:
                del self._rounds[call]
                return round_.go, _rows(round_.go, round_.payloads)
        return None

    def _round(self, call: Call) -> _Round:
        if call not in self._rounds and len(self._rounds) == _MOST_ROUNDS:
            del self._rounds[next(iter(self._rounds))]
        return self._rounds.setdefault(call, _Round())


def _rows(go: Go, payloads: dict[int, Entries]) -> list[Entries]:
    for client in sorted(go.senders):
        found = f"{len(payloads[client])} from client {client}"
        require(len(payloads[client]) == go.entries, "payload", found, f"of {go.entries} entries")
    silence = np.zeros(go.entries, np.float32)
    return [payloads[client] if speaks else silence for client, speaks in enumerate(go.takes_part)]


class analog_rounds(gr.basic_block):  # noqa: N801 (GNU Radio's way of naming)
    """When a round's go and payloads are there, the pilot goes out; when all clients know their channels, the entries.

    Message ports in: ``go`` and ``payload`` from the application, ``known`` when the clients have seen the pilot,
    ``heard`` from the server's demapper. Out: ``pilot``, ``entries0`` .. for the clients' mappers, ``entries`` for the
    application. ``prepare`` is called between two rounds, when nothing is under way: what it sets holds for the whole
    round, at whatever speed the other blocks run.
    """

    def __init__(self, clients: int, most_entries: int, pilot: Entries, prepare: Callable[[Go], None]) -> None:
        gr.basic_block.__init__(self, name="OAC analog rounds", in_sig=None, out_sig=None)
        self._gathering = Gathering(clients, most_entries)
        self._pilot = pdus.make(pilot)
        self._prepare = prepare
        self._under_way: tuple[Go, list[Entries]] | None = None
        self._drops = Drops(self.logger)
        for port in ("pilot", "entries", *(f"entries{i}" for i in range(clients))):
            self.message_port_register_out(pmt.intern(port))
        for port, handler in (
            ("go", self._on_go),
            ("payload", self._on_payload),
            ("known", self._on_known),
            ("heard", self._on_heard),
        ):
            self.message_port_register_in(pmt.intern(port))
            self.set_msg_handler(pmt.intern(port), handler)

    @property
    def dropped(self) -> int:
        """Messages and rounds that made no sense."""
        return self._drops.count

    def _on_go(self, message: Any) -> None:
        self._try(lambda: self._gathering.take_go(read_go(message)))
        self._try(self._begin)

    def _on_payload(self, message: Any) -> None:
        self._try(lambda: self._gathering.take_payload(read_payload(message)))
        self._try(self._begin)

    def _begin(self) -> None:
        round_ = self._gathering.whole() if self._under_way is None else None
        if round_ is None:
            return
        self._prepare(round_[0])
        self._under_way = round_
        self.message_port_pub(pmt.intern("pilot"), self._pilot)

    def _on_known(self, _message: Any) -> None:
        if self._under_way is None:
            return
        go, rows = self._under_way
        for i, row in enumerate(rows):
            self.message_port_pub(pmt.intern(f"entries{i}"), pdus.make(row, go.call._asdict()))

    def _on_heard(self, message: Any) -> None:
        self._under_way = None
        self.message_port_pub(pmt.intern("entries"), message)
        self._try(self._begin)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # one that leaves a handler would end the block's thread and hang the flowgraph
            self._drops.add(str(error))

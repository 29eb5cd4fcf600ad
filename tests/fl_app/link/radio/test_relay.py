# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders and status between machines: a relay at each end, keys in between, plain sockets of flowgraphs inside."""

import pmt
import pytest
import zmq

from fl_app.link.keys import client_keys, make_keys, server_keys
from fl_app.link.relay import Relay, RelayError
from oac_blocks.blocks.support import pdus
from tests.support.polling import DEADLINE_MS, until
from tests.support.ports import free_address


class Machines:
    """A server's flowgraph and those of clients, each with its relay."""

    def __init__(self, folder, keys):
        self.folder, self.keys = folder, keys
        self.outside = {name: free_address() for name in ("status", "orders")}
        self.context = zmq.Context()
        self.relays = []
        inside = self._inside("server")
        self.status, self.orders = self.context.socket(zmq.PULL), self.context.socket(zmq.PUB)
        self.status.bind(inside["status"])
        self.orders.bind(inside["orders"])
        self.relays.append(Relay(inside, self.outside, server_keys(keys)))

    def _inside(self, name):
        (self.folder / name).mkdir()
        return {kind: f"ipc://{self.folder}/{name}/{kind}" for kind in ("status", "orders")}

    def client(self, name, keys):
        """The plain sockets of a client's flowgraph: where it says its status, where it hears orders."""
        inside = self._inside(name)
        self.relays.append(Relay(inside, self.outside, keys))
        status, orders = self.context.socket(zmq.PUSH), self.context.socket(zmq.SUB)
        status.connect(inside["status"])
        orders.connect(inside["orders"])
        orders.subscribe(b"")
        return status, orders

    def close(self):
        for relay in self.relays:
            relay.close()
        self.context.destroy(linger=0)


@pytest.fixture
def machines(short_folder):
    make_keys(short_folder / "keys", 2)
    made = Machines(short_folder, short_folder / "keys")
    yield made
    made.close()


def status(client, number=0):
    return pmt.serialize_str(pdus.notice({"client": client, "round": number, "event": "armed", "epoch": 0}))


def received(socket_):
    return pdus.read_notice(pmt.deserialize_str(socket_.recv()))


def test_orders_and_status_pass(machines):
    ends = [machines.client(f"client-{n}", client_keys(machines.keys, n)) for n in range(2)]
    order = pmt.serialize_str(pdus.notice({"client": 1, "round": 5, "mode": "silent"}))
    for number, (out, orders) in enumerate(ends):
        until(lambda orders=orders: machines.orders.send(order) or orders.poll(20))
        assert received(orders)["round"] == 5
        out.send(status(number, 40 + number))
        assert machines.status.poll(DEADLINE_MS)
        assert received(machines.status)["round"] == 40 + number


def test_client_speaks_for_itself_alone(machines):
    out, _ = machines.client("client-1", client_keys(machines.keys, 1))
    array = pmt.serialize_str(pdus.notice({"client": pdus.float64_vector([1.0, 2.0]), "event": "armed"}))
    deep, long = b"\x07" * 4000, bytes.fromhex("0a00fffffff00100")
    for message in (status(0), b"no pmt", pmt.serialize_str(pmt.PMT_T), array, deep, long, status(1, 77)):
        out.send(message)
    assert machines.status.poll(DEADLINE_MS)
    assert received(machines.status)["round"] == 77
    assert not machines.status.poll(200)
    assert all(relay.is_alive for relay in machines.relays)


def test_message_that_is_too_large_is_not_read(machines):
    """It ends the connection, which comes back."""
    out, _ = machines.client("client-1", client_keys(machines.keys, 1))
    out.send(b"x" * 200_000)
    until(lambda: out.send(status(1, 78)) or machines.status.poll(50))
    assert received(machines.status)["round"] == 78


def test_key_that_is_not_listed_gets_nowhere(machines):
    make_keys(machines.folder / "other", 1)
    (machines.folder / "other" / "server.pub").write_bytes((machines.keys / "server.pub").read_bytes())
    stranger, heard = machines.client("stranger", client_keys(machines.folder / "other", 0))
    honest, orders = machines.client("client-0", client_keys(machines.keys, 0))
    stranger.send(status(0, 1))
    honest.send(status(0, 2))
    order = pmt.serialize_str(pdus.notice({"client": 0, "round": 5, "mode": "silent"}))
    until(lambda: machines.orders.send(order) or orders.poll(20))
    assert machines.status.poll(DEADLINE_MS)
    assert received(machines.status)["round"] == 2
    assert not machines.status.poll(200)
    assert not heard.poll(0)


def test_address_that_is_taken(machines):
    inside = machines._inside("second")
    with pytest.raises(RelayError, match="Address already in use"):
        Relay(inside, machines.outside, server_keys(machines.keys))

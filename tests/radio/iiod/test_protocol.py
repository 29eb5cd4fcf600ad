# SPDX-License-Identifier: GPL-3.0-or-later
"""The IIOD protocol line by line: what is answered, that nothing breaks it, and that others do not notice."""

import errno
import os
import random
import resource
import socket
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.radio.virtual.iiod import commands
from oac_blocks.radio.virtual.iiod.commands import parse
from tests.support.polling import DEADLINE_SECONDS, until

RX, TX, PHY = "cf-ad9361-lpc", "cf-ad9361-dds-core-lpc", "ad9361-phy"


class Line:
    """A connection, spoken by hand."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=DEADLINE_SECONDS)
        self.file = self.socket.makefile("rb")

    def ask(self, line, payload=b""):
        self.socket.sendall(line.encode() + b"\r\n" + payload)
        return self.number()

    def number(self):
        return int(self.file.readline())

    def read(self, line):
        n = self.ask(line)
        return n if n < 0 else self.file.read(n + 1)[:-2].decode()

    def close(self):
        self.file.close()
        self.socket.close()


@pytest.fixture
def line(plutos):
    served = plutos(1, lock_step=True, expected=0)
    one = Line(served.addresses[0])
    yield one
    one.close()


@pytest.mark.parametrize(
    "text", ["ZPRINT", "BINARY", "HELLO", "READ", "OPEN x", "TIMEOUT x", "WRITEBUF x y", "\xff\xfe"]
)
def test_what_is_not_known_is_invalid(line, text):
    assert line.ask(text) == -errno.EINVAL


def test_the_lines_of_a_usual_client(line):
    xml = line.ask("PRINT")
    assert line.file.read(xml + 1).decode().startswith("<?xml")
    line.socket.sendall(b"VERSION\r\n")
    assert line.file.readline().startswith(b"0.24.v0.24")
    assert line.ask("TIMEOUT 5000") == 0
    assert line.ask(f"GETTRIG {RX}") == -errno.ENOENT
    assert line.ask(f"SET {RX} BUFFERS_COUNT 8") == 0
    assert line.read(f"READ {PHY} OUTPUT altvoltage0 frequency") == "2400000000"
    assert line.read(f"READ {PHY} OUTPUT RX_LO frequency") == "2400000000"  # by name as well
    assert line.ask(f"WRITE {PHY} OUTPUT altvoltage0 frequency 10", b"1000000000") == 10
    assert line.read(f"READ {PHY} OUTPUT altvoltage0 frequency") == "1000000000"


def test_an_empty_line_is_not_answered(line):
    assert line.ask("\r\n\r\nTIMEOUT 1") == 0


@pytest.mark.parametrize(
    ("text", "payload", "error"),
    [
        ("READ nothing attr", b"", errno.ENODEV),
        (f"READ {PHY} nothing", b"", errno.ENOENT),
        (f"READ {PHY} INPUT nothing attr", b"", errno.ENODEV),
        (f"READ {PHY} multichip_sync", b"", errno.EACCES),
        (f"READ {PHY} dcxo_tune_fine", b"", errno.ENODEV),
        (f"WRITE {PHY} nothing 3", b"abc", errno.ENOENT),
        (f"WRITE {PHY} rx_path_rates 3", b"abc", errno.EACCES),
        (f"WRITE {PHY} ensm_mode 3", b"abc", errno.EINVAL),
        (f"WRITE {PHY} OUTPUT altvoltage0 frequency 2", b"-1", errno.EINVAL),
        (f"WRITE {PHY} OUTPUT altvoltage0 frequency 4", b"\xff\xfe\xfd\xfc", errno.EINVAL),
        (f"WRITE {PHY} ensm_mode 100000", b"x" * 100_000, errno.E2BIG),
        (f"OPEN {PHY} 1024 00000003", b"", errno.EINVAL),
        (f"OPEN {RX} 1024 00000000", b"", errno.EINVAL),
        (f"OPEN {RX} 1024 ffffffff", b"", errno.EINVAL),
        (f"OPEN {RX} 0 00000003", b"", errno.EINVAL),
        (f"OPEN {RX} 999999999999 00000003", b"", errno.ENOMEM),
        (f"OPEN {RX} 1024 00000003 CYCLIC", b"", errno.EPERM),
        (f"READBUF {RX} 4096", b"", errno.EBADF),
        (f"WRITEBUF {TX} 4096", b"", errno.EBADF),
        (f"CLOSE {RX}", b"", errno.EBADF),
        (f"SET {RX} BUFFERS_COUNT 0", b"", errno.EINVAL),
        (f"SET {RX} BUFFERS_COUNT 1000000", b"", errno.EINVAL),
    ],
)
def test_errors_are_negative_and_the_line_goes_on(line, text, payload, error):
    assert line.ask(text, payload) == -error
    assert line.ask("TIMEOUT 1") == 0


def test_one_file_is_one_value(line):
    assert line.ask(f"WRITE {PHY} INPUT voltage0 sampling_frequency 7", b"5000000") == 7
    assert line.read(f"READ {PHY} OUTPUT voltage0 sampling_frequency") == "5000000"
    assert line.read(f"READ {RX} INPUT voltage1 sampling_frequency_available").split() == ["5000000", "625000"]


def test_buffers_by_hand(line):
    assert line.ask(f"OPEN {TX} 256 00000003") == 0
    assert line.ask(f"OPEN {RX} 256 00000003") == 0
    assert line.ask(f"OPEN {TX} 256 00000003") == -errno.EBUSY
    assert line.ask(f"WRITEBUF {TX} 2048") == -errno.EINVAL  # more than a block
    for _ in range(4):
        assert line.ask(f"WRITEBUF {TX} 1024") == 0
        line.socket.sendall(bytes(1024))
        assert line.number() == 1024
    assert line.ask(f"CLOSE {TX}") == 0  # lock-step waits for nobody now
    assert line.ask(f"READBUF {RX} 1024") == 1024
    assert line.file.readline() == b"00000003\n"
    assert len(line.file.read(1024)) == 1024
    # More than a block comes in pieces, with one mask.
    assert line.ask(f"READBUF {RX} 2048") == 1024
    assert line.file.readline() == b"00000003\n"
    line.file.read(1024)
    assert line.number() == 1024
    line.file.read(1024)
    assert line.ask(f"CLOSE {RX}") == 0


def test_who_leaves_frees_the_buffer(plutos):
    address = plutos(1, lock_step=True, expected=0).addresses[0]
    one = Line(address)
    assert one.ask(f"OPEN {TX} 256 00000003 CYCLIC") == 0
    two = Line(address)
    assert two.ask(f"OPEN {TX} 256 00000003 CYCLIC") == -errno.EBUSY
    one.close()
    while (answer := two.ask(f"OPEN {TX} 256 00000003 CYCLIC")) == -errno.EBUSY:
        pass  # until the server has noticed
    assert answer == 0
    two.close()


def test_who_leaves_while_reading_is_let_go(plutos):
    """Nothing will ever come: the other radio is expected, and is not there."""
    served = plutos(2, lock_step=True)
    one = Line(served.addresses[0])
    assert one.ask(f"OPEN {RX} 256 00000003") == 0
    one.socket.sendall(f"READBUF {RX} 1024\r\n".encode())
    one.close()
    node = served.air.nodes[0]
    with served.air.lock:
        assert served.air.lock.wait_for(lambda: not node.queues, timeout=DEADLINE_SECONDS)


def unread_bytes(client):
    """Bytes of a client that its server has not read yet, as the kernel counts them."""
    port = f":{client.getsockname()[1]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (queues,) = [row[4] for row in rows if row[2].endswith(port)]
    return int(queues.split(":")[1], 16)


def test_a_client_that_left_with_lines_unread_is_let_go(plutos):
    """It gave up waiting for samples, sent what it sends at its end, and went."""
    served = plutos(2, lock_step=True)  # time stands: the other radio is expected, and is not there
    one = Line(served.addresses[0])
    assert one.ask(f"OPEN {RX} 256 00000003") == 0
    one.socket.sendall(f"READBUF {RX} 1024\r\n".encode())
    until(lambda: unread_bytes(one.socket) == 0, "the session's wait for samples")
    one.socket.sendall(f"CLOSE {RX}\r\nEXIT\r\n".encode())
    one.close()
    node = served.air.nodes[0]
    with served.air.lock:
        assert served.air.lock.wait_for(lambda: not node.queues, timeout=DEADLINE_SECONDS)


def test_it_listens_on_loopback_alone(plutos):
    own, port = plutos(1).addresses[0]
    assert own.startswith("127.")
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)}
    for address in addresses:
        if not address.startswith("127."):
            with pytest.raises(OSError):  # noqa: PT011  (refused, or unreachable)
                socket.create_connection((address, port), timeout=2)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed(text):
    assert isinstance(parse(text), commands.Command)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (b"", commands.Nothing()),
        (b"print\r", commands.Simple("PRINT")),
        (b"OPEN d 5 00000003 CYCLIC", commands.Open("d", 5, 3, True)),
        (b"READ d DEBUG a", commands.Read(commands.AttributePath("d", "debug", "a"))),
        (b"WRITE d INPUT c a 12", commands.Write(commands.AttributePath("d", "input", "a", "c"), 12)),
        (b"READ d INPUT", commands.Unknown()),
        (b"READBUF d -1", commands.Unknown()),
        (b"READBUF d 1e3", commands.Unknown()),
    ],
)
def test_lines_as_commands(text, command):
    assert parse(text) == command


SEEDS = [
    "PRINT", "VERSION", "TIMEOUT 100", "ZPRINT", "EXIT", f"READ {PHY} OUTPUT altvoltage0 frequency",
    f"WRITE {PHY} OUTPUT altvoltage0 frequency 10", f"READ {PHY} DEBUG direct_reg_access",
    f"WRITE {RX} DEBUG direct_reg_access 14", f"SET {RX} BUFFERS_COUNT 4", f"OPEN {RX} 1024 00000003",
    f"OPEN {TX} 1024 00000003 CYCLIC", f"READBUF {RX} 4096", f"WRITEBUF {TX} 4096", f"CLOSE {RX}", f"GETTRIG {RX}",
    f"WRITE {PHY} filter_fir_config 200", f"WRITE {PHY} xo_correction 8", f"READ {PHY} gain_table_config",
]  # fmt: skip


def mutated(rng):
    """A line of a client, with something wrong, or anything at all."""
    kind = rng.random()
    if kind < 0.25:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
    text = rng.choice(SEEDS)
    if kind < 0.5:
        words = text.split()
        words[rng.randrange(len(words))] = rng.choice(
            [
                "",
                "0",
                "-1",
                "99999999999999999999",
                "4294967296",
                "INPUT",
                "BUFFER",
                "iio:device1",
                "\0",
                "%n%s",
                "a" * 300,
            ]
        )
        text = " ".join(words)
    elif kind < 0.75:
        letters = list(text)
        for _ in range(rng.randrange(1, 4)):
            letters[rng.randrange(len(letters))] = rng.choice(string.printable)
        text = "".join(letters)
    return text.encode("latin-1")


def throw_lines(served, count, seed):
    """On connections that come and go, some closed half-way, some left open and silent."""
    rng = random.Random(seed)
    sent, idle = 0, []
    while sent < count:
        connection = socket.create_connection(served.addresses[0], timeout=DEADLINE_SECONDS)
        try:
            connection.setblocking(False)
            for _ in range(rng.randrange(1, 60)):
                sent += 1
                text = mutated(rng) + (b"\r\n" if rng.random() < 0.95 else b"")
                if rng.random() < 0.1:
                    text += os.urandom(rng.randrange(2000))
                try:
                    connection.send(text)
                    connection.recv(1 << 20)
                except BlockingIOError:
                    continue
        except OSError:
            pass
        if rng.random() < 0.05 and len(idle) < 20:
            idle.append(connection)
        else:
            connection.close()
    return idle


def fuzz(plutos, lines):
    # Radio 0 is shouted at; radio 1 talks to its client all the while.
    served = plutos(2, lock_step=True, expected=0)
    calm = Line(served.addresses[1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    idle, part = [], 1000
    for seed in range(-(-lines // part)):
        idle += throw_lines(served, min(part, lines), seed)
        assert calm.read(f"READ {PHY} OUTPUT altvoltage1 frequency") == "2450000000"
        for connection in idle[20:]:
            connection.close()
        del idle[20:]
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    for connection in idle:
        connection.close()
    again = Line(served.addresses[0])
    assert again.ask("TIMEOUT 1") == 0
    assert grown_kib < 300 * 1024, f"{grown_kib} KiB more"
    again.close()
    calm.close()


def test_thousands_of_bad_lines_disturb_nobody(plutos):
    fuzz(plutos, 3000)


@pytest.mark.slow
def test_a_hundred_thousand_bad_lines_disturb_nobody(plutos):
    fuzz(plutos, 100_000)


def test_huge_lengths_take_no_memory(plutos):
    served = plutos(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = [Line(served.addresses[0]) for _ in range(20)]
    for i, one in enumerate(lines):
        one.socket.sendall(f"WRITE {PHY} ensm_mode {10 ** (9 + i % 9)}\r\n".encode() + b"x" * 100_000)
    endless = Line(served.addresses[0])
    endless.socket.settimeout(20)
    try:
        for _ in range(100):
            endless.socket.sendall(b"y" * 100_000)  # a line without an end
        assert endless.file.readline() == b"-22\n"
        assert endless.file.readline() == b""
    except (BrokenPipeError, ConnectionResetError):
        pass  # hung up on, which is right
    other = Line(served.addresses[0])
    assert other.ask("TIMEOUT 1") == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    for one in (*lines, endless, other):
        one.close()


def test_more_connections_than_there_is_room_for_are_turned_away(plutos):
    from oac_blocks.radio.virtual.server import MOST_CONNECTIONS

    served = plutos(2)
    crowd = [
        socket.create_connection(served.addresses[0], timeout=DEADLINE_SECONDS) for _ in range(MOST_CONNECTIONS + 20)
    ]
    assert crowd[-1].recv(1) == b""
    calm = Line(served.addresses[1])
    assert calm.ask("TIMEOUT 1") == 0
    for one in crowd:
        one.close()
    calm.close()

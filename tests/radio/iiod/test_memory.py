# SPDX-License-Identifier: GPL-3.0-or-later
"""The process ``oac-virtual-pluto`` under clients that ask for much: bounded memory, and an end when it is told to."""

import contextlib
import errno
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from oac_blocks.radio.virtual.addresses import STANDARD_PORT
from tests.radio.iiod.test_protocol import RX, TX, Line

MOST_MEGABYTES = 500
FASTEST_HZ = 61_440_000


class Served:
    """The command, in a process of its own."""

    def __init__(self, *options):
        command = [sys.executable, "-c", "from oac_blocks.radio.virtual.cli import app; app()", "--base-port", "0"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([*command, *options], stdout=pipe, stderr=pipe, text=True)
        self.uris = []
        while (line := self.process.stdout.readline()) != "ready\n":
            assert line, f"it ended before it was ready:\n{self.process.communicate()[1]}"
            self.uris.append(line.split()[1])
        self.addresses = [(uri.removeprefix("ip:"), STANDARD_PORT) for uri in self.uris]

    def megabytes(self, key="VmHWM"):
        """The most that was resident at any time, or what is now (VmRSS)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))

    def stop(self):
        """Its exit status, how long the end took in seconds, and what it said."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=60)
        return self.process.returncode, time.monotonic() - begin, said


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:

        def start(*options):
            served = Served(*options)
            stack.callback(served.process.communicate)
            stack.callback(served.process.kill)
            return served

        yield start


@contextlib.contextmanager
def radio(uri, rate):
    adi = pytest.importorskip("adi")
    one = adi.Pluto(uri=uri)
    one._ctx.set_timeout(60_000)
    one.sample_rate = rate
    one.rx_lo = one.tx_lo = 2_400_000_000
    try:
        yield one
    finally:
        one.tx_destroy_buffer()
        one.rx_destroy_buffer()


def send(one, blocks, samples=1 << 18):
    for _ in range(blocks):
        one.tx(np.full(samples, 1000 + 1000j))


def test_a_transmitter_at_the_fastest_rate_and_a_frozen_process_take_little_memory(serve):
    """Alone, after a freeze of two seconds (1 GB of samples), beside a slow receiver that does not read, and later."""
    served = serve("--radios", "2")
    with radio(served.uris[0], FASTEST_HZ) as sender:
        send(sender, 20)
        served.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        served.process.send_signal(signal.SIGCONT)
        send(sender, 20)
        with radio(served.uris[1], 2_500_000) as receiver:
            receiver.rx_buffer_size = 4096
            receiver.rx()
            send(sender, 4)
        send(sender, 20)
        assert served.megabytes() < 200
        status, _, (told, _) = served.stop()
    assert status == 0
    air, wall = (float(told.split()[i]) for i in (0, 7))
    assert 0 < air < wall - 1.5  # the freeze was no time of the air


def test_thirty_contexts_with_buffers_take_little_memory(serve):
    iio = pytest.importorskip("iio")
    served = serve("--radios", "2")
    kept = []
    for i in range(30):
        context = iio.Context(served.uris[i % 2])
        device = context.find_device(RX)
        for channel in device.channels:
            channel.enabled = True
        buffer = iio.Buffer(device, 1 << 18)
        kept.append((context, buffer))
    kept[0][1].refill()
    assert served.megabytes() < MOST_MEGABYTES
    while kept:
        context, buffer = kept.pop()
        del buffer, context
    assert served.stop()[0] == 0


def test_buffers_beyond_the_memory_of_all_are_refused(serve):
    """16 Mi samples for a stream, 64 Mi for all: 4 bytes each. They are filled, and the process stays small."""
    served = serve("--radios", "1")
    lines = [Line(served.addresses[0]) for _ in range(5)]
    assert [one.ask(f"SET {RX} BUFFERS_COUNT 4") for one in lines] == [0] * 5
    answers = [one.ask(f"OPEN {RX} {1 << 22} 00000003") for one in lines]
    assert answers == [0, 0, 0, 0, -errno.ENOMEM]
    assert lines[4].ask(f"OPEN {TX} 1024 00000003") == -errno.ENOMEM
    deadline = time.monotonic() + 60
    while served.megabytes() < 256 and time.monotonic() < deadline:
        time.sleep(0.1)
    for one in lines[:4]:
        one.close()
    while (answer := lines[4].ask(f"OPEN {TX} 1024 00000003")) and time.monotonic() < deadline:
        assert answer == -errno.ENOMEM  # until the server has seen that they are gone
    assert answer == 0
    lines[4].close()
    assert served.megabytes() < MOST_MEGABYTES


def test_in_lock_step_a_transmitter_alone_takes_little_memory(serve):
    """Nobody listens, so nothing paces it: 400 MB of samples."""
    served = serve("--clock", "lock-step", "--expect", "0")
    with radio(served.uris[0], 1_000_000) as sender:
        send(sender, 50, samples=1 << 20)
        assert served.megabytes() < 200


def test_the_end_comes_soon_while_it_computes(serve):
    """Three radios that hear each other at 61.44 Msps: more than it can compute, and nobody reads."""
    served = serve("--radios", "3", "--snr", "20", "--ppm", "20")
    lines = [Line(address) for address in served.addresses]
    for one in lines:
        assert one.ask("WRITE ad9361-phy INPUT voltage0 sampling_frequency 8", b"61440000") == 8
        assert one.ask(f"OPEN {RX} 65536 00000003") == 0
        assert one.ask(f"OPEN {TX} 65536 00000003 CYCLIC") == 0
        one.socket.sendall(f"WRITEBUF {TX} 262144\r\n".encode())
        assert one.number() == 0
        one.socket.sendall(np.full(1 << 17, 1000, "<i2").tobytes())
        assert one.number() == 262_144
    status, seconds, _ = served.stop()
    assert status == 0
    assert seconds < 20  # of a machine that may be busy; alone it takes half a second


def test_a_process_whose_air_stops_ends_and_says_why(serve):
    """Memory is taken away from it for real: the thread that computes gets none."""
    served = serve("--radios", "1")
    one = Line(served.addresses[0])
    assert one.ask("WRITE ad9361-phy INPUT voltage0 sampling_frequency 8", b"61440000") == 8
    assert one.ask(f"SET {RX} BUFFERS_COUNT 4") == 0
    size = int(served.megabytes("VmSize") * 2**20)
    resource.prlimit(served.process.pid, resource.RLIMIT_AS, (size, size))
    assert one.ask(f"OPEN {RX} {1 << 22} 00000003") == 0  # the blocks are 16 MB each
    _, told = served.process.communicate(timeout=60)
    assert served.process.returncode == 1
    assert len(told.splitlines()) == 1
    assert told.startswith("oac-virtual-pluto: the air stopped: ")
    assert "Unable to allocate" in told
    one.close()

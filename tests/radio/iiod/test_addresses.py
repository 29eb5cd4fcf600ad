# SPDX-License-Identifier: GPL-3.0-or-later
"""Where virtual radios listen, so that libiio tells them apart: also when it clones a context."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest

from oac_blocks.radio.virtual.addresses import STANDARD_PORT, listen_for_all, uri
from oac_blocks.radio.virtual.advertise import advertised
from tests.support.polling import until
from tests.support.ports import free_ports

iio = pytest.importorskip("iio")


@contextlib.contextmanager
def listening(*arguments):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(one).getsockname() for one in listen_for_all(*arguments)]


def test_a_clone_of_each_radio_is_that_radio(plutos):
    served = plutos(3)
    for radio, address in enumerate(served.uris):
        context = iio.Context(address)
        assert context.clone().attrs["hw_serial"] == context.attrs["hw_serial"] == f"{radio:034x}"


def test_free_addresses_are_at_the_standard_port_and_nobody_elses():
    with listening(4, None, 0) as first, listening(4, None, 0) as second:
        assert len({*first, *second}) == 8
        assert all(host.startswith("127.") and port == STANDARD_PORT for host, port in first + second)
        assert uri(first[0]) == f"ip:{first[0][0]}"


def test_a_base_port_gives_consecutive_ports_of_one_address():
    port = free_ports(3)
    with listening(3, None, port) as found:
        assert found == [("127.0.0.1", port + radio) for radio in range(3)]
        assert [uri(one) for one in found] == [f"ip:127.0.0.1:{port + radio}" for radio in range(3)]
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{port}: it is in use"):
            listen_for_all(1, None, port)
    with listening(2, "127.0.0.3", 0) as found:
        assert len(set(found)) == 2
        assert {host for host, _ in found} == {"127.0.0.3"}


def test_without_a_choice_each_radio_has_the_next_loopback_address_or_it_is_said_who_has_it():
    wanted = [(f"127.0.0.{1 + radio}", STANDARD_PORT) for radio in range(3)]
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # another one may run on this machine
            assert stack.enter_context(listening(3, None, None)) == wanted
        with pytest.raises(OSError, match=r"127\.0\.0\.\d:30431: it is in use.*--base-port"):
            listen_for_all(3, None, None)


def test_the_command_serves_what_was_asked_for():
    """An AD9363A with thermal noise, unless told otherwise."""
    program = [sys.executable, "-c", "from oac_blocks.radio.virtual.cli import app; app()", "--base-port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*program, "--radios", "2"], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            uris = [process.stdout.readline().split()[1] for _ in range(2)]
            assert process.stdout.readline() == "ready\n"
            assert all(re.fullmatch(r"ip:127\.\d+\.\d+\.\d+", one) for one in uris)
            context = iio.Context(uris[1])
            assert context.clone().attrs["hw_serial"] == f"{1:034x}"
            assert "AD9363A" in context.attrs["hw_model"]
            receiver = context.find_device("ad9361-phy").find_channel("voltage0", False)
            assert receiver.attrs["rssi"].value == "115.50 dB"  # 18 MHz of thermal noise
        finally:
            process.terminate()
    for bad in (["--snr", "loud"], ["--chip", "ad9999"], ["--host", "127.0.0.1", "--base-port", "65500"]):
        done = subprocess.run([*program, "--radios", "50", *bad], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        assert "oac-virtual-pluto: " in done.stderr
        assert "must be" in done.stderr


def test_advertising_harms_nothing_where_there_is_no_avahi(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with advertised([("127.0.0.1", STANDARD_PORT)]) as can:
        assert not can


def avahi_runs():
    tool = shutil.which("avahi-browse")
    return tool and subprocess.run([tool, "-t", "_iio._tcp"], capture_output=True, timeout=60).returncode == 0


@pytest.mark.skipif(not avahi_runs(), reason="no Avahi daemon runs on this machine")
def test_a_scan_finds_advertised_radios(plutos):
    served = plutos(2)
    serials = {f"{radio:034x}" for radio in range(2)}
    with advertised(served.addresses):

        def found():
            return {uri: text for uri, text in iio.scan_contexts().items() if any(one in text for one in serials)}

        until(lambda: len(found()) == 2, "a scan that finds both radios", 60)
        for address, text in found().items():
            assert iio.Context(address).attrs["hw_serial"] in text

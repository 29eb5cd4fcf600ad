# SPDX-License-Identifier: GPL-3.0-or-later
"""`fl_app radio`: a flowgraph as a process, and an application at its sockets."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pmt
import zmq

from oac_blocks import pdus
from tests.blocks.flowgraphs import until

FL_APP = [sys.executable, "-c", "from fl_app.cli import app; app()", "radio"]


def refused(*words):
    run = subprocess.run([*FL_APP, *words], capture_output=True, text=True, timeout=60)
    assert run.returncode != 0
    return run.stderr


def test_the_loopback_asks_for_votes_and_decides(tmp_path):
    command = [*FL_APP, "--loopback", "2", "--folder", str(tmp_path), "--set", "air.snr_db=20"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    context = zmq.Context()
    try:
        assert process.stdout.readline().strip() == "ready"
        asked, decided = (context.socket(zmq.SUB) for _ in range(2))
        for socket in (asked, decided):
            socket.subscribe(b"")
        asked.connect(f"ipc://{tmp_path}/next")
        decided.connect(f"ipc://{tmp_path}/soft_votes")
        payload = context.socket(zmq.PUSH)
        payload.connect(f"ipc://{tmp_path}/payload")
        assert asked.poll(60_000)
        number = pdus.read_notice(pmt.deserialize_str(asked.recv()))["round"]
        votes = np.random.default_rng(1).choice(np.array([-1, 1], np.int8), 700)
        for client in range(2):
            payload.send(pmt.serialize_str(pdus.make(votes, {"client": client, "round": number})))
        assert decided.poll(60_000)
        soft = pdus.read(pmt.deserialize_str(decided.recv()), np.float32)
        assert pmt.to_long(soft.metadata["round"]) == number
        assert np.mean(np.sign(soft.data) == votes) > 0.8
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        context.destroy(linger=0)


def test_a_killed_command_leaves_no_flowgraph(tmp_path):
    """Killed while the flowgraph is still being imported, and so before it can look after itself."""
    process = subprocess.Popen([*FL_APP, "--loopback", "2", "--folder", str(tmp_path)])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: children.read_text().split())
    [flowgraph] = children.read_text().split()
    process.kill()
    process.wait()
    until(lambda: not Path(f"/proc/{flowgraph}").exists())


def test_a_folder_whose_name_is_too_long_is_refused(tmp_path):
    folder = tmp_path / ("x" * 100)
    assert "folder must have a path shorter than" in refused("--loopback", "2", "--folder", str(folder))
    assert not folder.exists()


def test_what_is_missing_is_said():
    assert "either --loopback N or --uri URI" in refused()
    assert "either --loopback N or --uri URI" in refused("--loopback", "2", "--uri", "ip:127.0.0.1")


def test_nothing_is_sent_before_a_frequency_is_named():
    assert "nothing is sent before you name one" in refused("--uri", "ip:127.0.0.1:9")


def test_a_radio_that_is_not_there():
    error = refused("--uri", "ip:127.0.0.1:9", "--frequency", "2.45e9", "--port", "24800")
    assert "the flowgraph cannot be built: no radio answers at ip:127.0.0.1:9" in error


def test_a_client_that_the_bench_does_not_have():
    assert "they are 0 to 1" in refused("--uri", "ip:127.0.0.1:9", "--frequency", "2.45e9", "--client", "2")


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refused("--uri", "ip:127.0.0.1:9", "--frequency", "2.45e9", "--port", str(port - 2))
    assert f"cannot listen on tcp://127.0.0.1:{port}: Address already in use" in error


def test_a_folder_that_is_in_use(tmp_path):
    first = subprocess.Popen([*FL_APP, "--loopback", "2", "--folder", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline().strip() == "ready"
        assert "another `fl_app radio` uses" in refused("--loopback", "2", "--folder", str(tmp_path))
        assert (tmp_path / "next").exists()
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 0
        assert not list(tmp_path.iterdir())
    finally:
        first.kill()
        first.wait()

# SPDX-License-Identifier: GPL-3.0-or-later
"""`fl_app radio`: a flowgraph as a process, and an application at its sockets."""

import signal
import socket
import subprocess

import numpy as np
import pmt
import zmq

from fl_app.cli.radio_command import radio_rate_hz
from fl_app.config import load_settings
from oac_blocks.blocks.support import pdus
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from oac_blocks.record.files import read, recordings
from oac_blocks.record.replay import replay
from tests.support.polling import DEADLINE_MS, DEADLINE_SECONDS
from tests.support.ports import free_ports
from tests.support.processes import FL_APP, assert_all_end, children_of

RADIO = [*FL_APP, "radio"]


def refused(*words):
    run = subprocess.run([*RADIO, *words], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert run.returncode != 0
    return run.stderr


def test_the_loopback_asks_for_votes_and_decides_and_a_replay_decides_alike(short_folder, tmp_path, program):
    rec = tmp_path / "rec"
    radio = program(
        [
            *RADIO,
            "--loopback",
            2,
            "--folder",
            short_folder,
            "--set",
            "air.snr_db=20",
            "--record",
            rec,
            "--record-mb",
            50,
        ]
    )
    context = zmq.Context()
    try:
        radio.says("ready")
        asked, decided = (context.socket(zmq.SUB) for _ in range(2))
        for socket in (asked, decided):
            socket.subscribe(b"")
        asked.connect(f"ipc://{short_folder}/next")
        decided.connect(f"ipc://{short_folder}/soft_votes")
        payload = context.socket(zmq.PUSH)
        payload.connect(f"ipc://{short_folder}/payload")
        assert asked.poll(DEADLINE_MS)
        number = pdus.read_notice(pmt.deserialize_str(asked.recv()))["round"]
        votes = np.random.default_rng(1).choice(np.array([-1, 1], np.int8), 700)
        for client in range(2):
            payload.send(pmt.serialize_str(pdus.make(votes, {"client": client, "round": number})))
        assert decided.poll(DEADLINE_MS)
        soft = pdus.read(pmt.deserialize_str(decided.recv()), np.float32)
        assert pmt.to_long(soft.metadata["round"]) == number
        assert np.mean(np.sign(soft.data) == votes) > 0.8
        assert f"another program records into {rec}" in refused("--loopback", "2", "--record", str(rec))
        radio.send(signal.SIGINT)
        assert radio.wait() == 0
    finally:
        context.destroy(linger=0)
    assert f"rounds recorded in {rec}" in radio.err
    again = {one.heard.round: one for one in map(replay, map(read, recordings([rec])))}
    assert {one.verdict for one in again.values()} == {"equal"}
    np.testing.assert_array_equal(again[number].soft_votes, soft.data)


def test_a_killed_command_leaves_no_flowgraph(short_folder, program):
    """Killed while the flowgraph is still being imported, and so before it can look after itself."""
    radio = program([*RADIO, "--loopback", 2, "--folder", short_folder])
    [flowgraph] = radio.reaches(lambda: children_of(radio.pid), "its flowgraph")
    radio.kill()
    assert_all_end([flowgraph])


def test_a_folder_whose_name_is_too_long_is_refused(tmp_path):
    folder = tmp_path / ("x" * 100)
    assert "folder must have a path shorter than" in refused("--loopback", "2", "--folder", str(folder))
    assert not folder.exists()


def test_what_is_missing_is_said():
    assert "either --loopback N or --uri URI" in refused()
    assert "either --loopback N or --uri URI" in refused("--loopback", "2", "--uri", "ip:127.0.0.1")


def test_only_the_server_records(tmp_path):
    said = refused("--uri", "ip:127.0.0.1:9", "--client", "0", "--record", str(tmp_path / "rec"))
    assert "--record writes what the server receives" in said
    assert not (tmp_path / "rec").exists()


def test_nothing_is_sent_before_a_frequency_is_named():
    assert "nothing is sent before you name one" in refused("--uri", "ip:127.0.0.1:9")


def test_a_radio_that_is_not_there():
    error = refused("--uri", "ip:127.0.0.1:9", "--frequency", "2.45e9", "--port", str(free_ports(6)))
    assert "the flowgraph cannot be built: no radio answers at ip:127.0.0.1:9" in error


def test_a_frequency_that_the_chip_cannot_be_tuned_to_is_one_sentence():
    """An AD9363A ends at 3.8 GHz; an AD9361 would go on to 6 GHz. gr-iio's own error names neither."""
    with VirtualPlutos(spread(1, 1, chip="ad9363a")) as served:
        uri = served.uris[0]
        error = refused("--uri", uri, "--frequency", "5.8e9", "--port", str(free_ports(6)))
    range_text = "frequency_hz must be from 325000000 to 3800000000 Hz for its chip (ad9363a), got 5800000000"
    assert f"\nthe flowgraph cannot be built: {uri}: {range_text}\n" in error
    assert "EINVAL" not in error
    assert "Invalid argument" not in error


def test_a_uri_that_no_driver_knows():
    assert "--uri 192.168.2.1: uri must begin with one of ip:, usb:" in refused("--uri", "192.168.2.1")


def test_a_config_names_the_radios_and_options_replace_its_values(tmp_path):
    config = tmp_path / "bench.toml"
    config.write_text('[radios]\nserver = "ip:127.0.0.1:9"\nclients = ["ip:127.0.0.1:8", "ip:127.0.0.1:7"]\n')
    assert "[radios] frequency_hz = 0: nothing is transmitted until you name a frequency" in refused(str(config))
    assert "[radios] tx_gain_db must be from -89.75 to 0" in refused(
        str(config), "--frequency", "2.45e9", "--tx-attenuation", "90"
    )
    tuned = (str(config), "--frequency", "2.45e9")
    assert "no radio answers at ip:127.0.0.1:7" in refused(*tuned, "--client", "1")
    assert "give --tx-gain alone" in refused(*tuned, "--tx-gain", "-3", "--tx-attenuation", "3")


def test_a_client_that_the_bench_does_not_have():
    assert "they are 0 to 1" in refused("--uri", "ip:127.0.0.1:9", "--frequency", "2.45e9", "--client", "2")


def test_a_port_that_is_taken():
    first = free_ports(6)
    port = first + 2
    with socket.create_server(("127.0.0.1", port)):
        error = refused("--uri", "ip:127.0.0.1:9", "--frequency", "2.45e9", "--port", str(first))
    assert f"cannot listen on tcp://127.0.0.1:{port}: Address already in use" in error


def test_a_folder_that_is_in_use(short_folder, program):
    first = program([*RADIO, "--loopback", 2, "--folder", short_folder])
    first.says("ready")
    assert "another `fl_app radio` uses" in refused("--loopback", "2", "--folder", str(short_folder))
    assert (short_folder / "next").exists()
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    assert not list(short_folder.iterdir())


def test_the_rate_of_the_radios_need_not_be_said_twice():
    assert radio_rate_hz(load_settings(None, [])) == 2.5e6
    assert radio_rate_hz(load_settings(None, ["air.sample_rate_hz=1e6"])) == 1e6
    assert radio_rate_hz(load_settings(None, ["radios.sample_rate_hz=4e6"])) == 4e6

# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong on purpose: as lines, and as heard by a receiver on the lock-step clock."""

import contextlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings, spread
from oac_blocks.radio.virtual.air.shared_air import SharedAir
from oac_blocks.radio.virtual.faults import KINDS, RadioFault, parse_fault
from tests.support.polling import DEADLINE_SECONDS

RATE = 1_000_000
BLOCK = 4096


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("2.5 unplug 1 3", RadioFault("unplug", 2.5, 1, seconds=3.0)),
        ("unplug 1", RadioFault("unplug", None, 1)),
        ("plug 0", RadioFault("plug", None, 0)),
        ("1e-3 underflow 2 77", RadioFault("underflow", 1e-3, 2, value=77)),
        ("overflow 2", RadioFault("overflow", None, 2)),
        ("0 clock 1 -5.5", RadioFault("clock", 0.0, 1, value=-5.5)),
        ("1 fade * 2 30 0.5", RadioFault("fade", 1.0, -1, 2, 30.0, seconds=0.5)),
        ("interferer 0 -1e5 -20 2", RadioFault("interferer", None, 0, value=-20.0, hertz=-1e5, seconds=2.0)),
    ],
)
def test_lines_as_faults(line, fault):
    assert parse_fault(line, 3) == fault


@pytest.mark.parametrize(
    "line",
    ["", "3", "explode 1", "unplug", "unplug 3", "unplug -1", "unplug *", "clock 1", "fade 0 1 30", "clock 0 nan",
     "underflow 0 1e99", "-1 unplug 0", "interferer 0 a b c", "plug 1 2 3"],
)  # fmt: skip
def test_other_lines_are_refused(line):
    with pytest.raises(ValueError, match=r"must be"):
        parse_fault(line, 3)


@given(st.lists(st.sampled_from([*KINDS, "*", "0", "1", "2", "-1", "1e9", "nan", "x", "0.5"]), max_size=7))
def test_any_line_is_a_fault_or_a_value_error(words):
    with contextlib.suppress(ValueError):
        assert isinstance(parse_fault(" ".join(words), 3), RadioFault)


def hear(*lines, samples=20 * BLOCK, settings=None, amplitude=0.25):
    """What radio 1 hears of radio 0's endless constant, without any sockets."""
    settings = settings or VirtualAirSettings((CrystalSettings(), CrystalSettings()))
    air = SharedAir(settings, lock_step=True, expected=0, faults=[parse_fault(line, 2) for line in lines])
    for radio in range(2):
        with air.lock:
            setup = air.context(radio).settings
            setup.sample_rate_hz, setup.rx_lo_hz, setup.tx_lo_hz = RATE, 2_400_000_000, 2_400_000_000
            setup.gain_mode, setup.rx_gain_db, setup.tx_gain_db = "manual", 50, -10
            air.context(radio).changed()
    buffer = air.open_tx(0, BLOCK, cyclic=True)
    air.push_tx(0, buffer, np.full(BLOCK, amplitude, np.complex64), lambda: False)
    queue = air.open_rx(1, BLOCK, 3)
    heard = []
    while len(heard) * BLOCK < samples:
        air.step()
        while (words := queue.pop()) is not None:
            heard.append(words)
            queue.release()
    return np.concatenate(heard)[:samples] @ [1 / 2048, 1j / 2048]


def test_without_faults_it_is_constant():
    assert np.array_equal(np.unique(hear()), [0.25])


def test_a_deep_fade_lasts_as_long_as_was_said():
    heard = np.abs(hear("0.02 fade 0 1 20 0.03"))
    # Settings hold for whole blocks of the receiver, 1,792 samples.
    quiet = np.flatnonzero(heard < 0.1)
    assert quiet[0] == pytest.approx(0.02 * RATE, abs=1792)
    assert quiet[-1] == pytest.approx(0.05 * RATE, abs=1792)
    assert heard[quiet] == pytest.approx(0.025, abs=1 / 2048)
    assert np.array_equal(hear("0.02 fade 1 0 20 0.03"), hear())  # the other way only


def test_an_interferer_is_a_tone_for_a_while():
    heard = hear("0.01 interferer 1 125000 -60 0.02") - 0.25
    # -60 dB at the antenna and a gain of 50 dB.
    assert np.abs(heard[10_000:30_000]) == pytest.approx(10 ** (-10 / 20), abs=2 / 2048)
    assert not heard[:10_000].any()
    assert not heard[30_000:].any()
    turn = np.angle(heard[10_001:30_000] * heard[10_000:29_999].conj())
    assert turn == pytest.approx(2 * np.pi / 8, abs=0.02)


def test_a_clock_steps():
    """5 ppm of 2.4 GHz: 12 kHz from then on."""
    heard = hear("0.04 clock 0 5", samples=80_000)
    turn = np.angle(heard[1:] * heard[:-1].conj()) * RATE / (2 * np.pi)
    assert np.abs(turn[:37_000]).max() < 1
    assert np.median(turn[43_000:]) == pytest.approx(12e3, rel=0.02)


def test_the_schedule_of_the_command_line(tmp_path):
    """A radio that is unplugged from the start does not answer; a bad line is refused."""
    (tmp_path / "faults").write_text("# nothing yet\n0 unplug 1\n")
    command = [sys.executable, "-c", "from oac_blocks.radio.virtual.cli import app; app()", "--base-port", "0"]
    with subprocess.Popen(
        [*command, "--radios", "2", "--faults", str(tmp_path / "faults"), "--console"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as served:  # fmt: skip
        lines = [served.stdout.readline() for _ in range(3)]
        assert [line.split()[0] for line in lines] == ["uri", "uri", "ready"]
        served.stdin.write("explode\nfade 0 1 10 1\n")
        served.stdin.flush()
        assert "must be" in served.stdout.readline()
        assert "fade 0 1 10 1" in served.stdout.readline()
        served.terminate()
        assert served.wait(DEADLINE_SECONDS) == 0
    done = subprocess.run([*command, "--fault", "explode"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 2
    assert "explode" in done.stderr


def test_spread_radios_differ_and_a_seed_repeats_them():
    a, b = spread(5, 1, ppm=20), spread(5, 1, ppm=20)
    assert a == b
    assert a != spread(5, 2, ppm=20)
    assert [crystal.ppm for crystal in a.crystals] == pytest.approx([0, 20, 20 / 3, -20 / 3, -20])
    assert len({delay for row in a.delay_seconds for delay in row}) == 25


def test_in_lock_step_a_radio_that_was_the_only_one_comes_back(plutos):
    """Nobody listens any more, so time stands still; it would stay away for ever."""
    served = plutos(1, lock_step=True, expected=0)
    queue = served.air.open_rx(0, 4096, 3)
    served.fault("unplug 0 1000")
    node = served.air.nodes[0]
    with served.air.lock:
        assert served.air.lock.wait_for(lambda: queue not in node.queues and node.plugged, timeout=DEADLINE_SECONDS)
    assert served.air.now < 1000

# SPDX-License-Identifier: GPL-3.0-or-later
"""`fl_app up` on a bench of radios: one config, one command, a flowgraph for each of three virtual Plutos."""

import os
import signal
import subprocess

import pytest

from fl_app.processes.interrupt import EXIT_CODE
from fl_app.runs.run_folder import RunFolder
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from tests.support.polling import DEADLINE_SECONDS, until
from tests.support.processes import FL_APP, assert_all_end, family_of, is_running
from tests.support.radios import assert_as_found

pytest.importorskip("gnuradio")

CLIENTS, K = 2, 500
FORM_64 = {"fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 4, "sample_rate_hz": 1e6}


def config_of(link_settings, plutos, rounds):
    return link_settings(
        run={"rounds": rounds, "eval_every": 100_000, "checkpoint_every": 2},
        clients={"n": CLIENTS},
        selection={"k": K, "rho": None},
        air={"name": "pluto", **FORM_64},
        radios={
            "server": plutos.uris[0],
            "clients": list(plutos.uris[1:]),
            "transport": "flowgraphs",
            "frequency_hz": 2.45e9,
            "tx_gain_db": -10.0,
        },
    )


def test_a_radio_that_is_not_there_is_named_before_anything_starts(link_settings, short_folder):
    with VirtualPlutos(spread(1 + CLIENTS, 1), lock_step=True) as plutos:
        settings = config_of(link_settings, plutos, 1)
        nobody = "ip:127.0.0.1:1"
        (short_folder / "bench.toml").write_text(
            settings.with_values(radios={"clients": [plutos.uris[1], nobody]}).toml()
        )
        words = ["up", str(short_folder / "bench.toml"), "--out", str(short_folder / "run")]
        run = subprocess.run([*FL_APP, *words], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert run.returncode == 1
    assert f"error: no Pluto at {nobody}: Connection refused" in run.stderr
    assert not (short_folder / "run").exists()


@pytest.mark.early
def test_one_command_runs_all_flowgraphs_through_an_unplugged_radio_and_leaves_nothing(link_settings, short_folder):
    run = RunFolder(short_folder / "run")
    logs = run.path / "logs"
    with VirtualPlutos(spread(1 + CLIENTS, 1, ppm=10.0, snr_db=25.0), lock_step=True) as plutos:
        config = short_folder / "bench.toml"
        config.write_text(config_of(link_settings, plutos, 100_000).toml())
        process = subprocess.Popen(
            [*FL_APP, "up", str(config), "--no-training", "--out", str(run.path)],
            start_new_session=True,
            text=True,
            stderr=subprocess.PIPE,
        )

        def text():
            return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(logs.glob("*.log")))

        def reaches(condition, what):
            until(lambda: condition() or process.poll() is not None, what, hint=text)
            assert process.poll() is None, process.communicate()

        family = []
        try:
            reaches(lambda: len(run.rows()) >= 2, "two rounds")
            assert [row.absent_clients for row in run.rows()[:2]] == [0, 0], text()
            # A burst of 500 votes at 24 a symbol, with a sync symbol in each of 4 groups, of 80 samples each at 1 Msps.
            assert run.rows()[1].air_seconds == pytest.approx((-(-K // 24) + 4) * 80 / 1e6)
            family = family_of(process.pid)
            assert len(family) >= 1 + CLIENTS + 2 * (1 + CLIENTS)  # server, clients; a command and a flowgraph a radio
            plutos.fault(f"unplug {CLIENTS} 1")
            log = logs / f"radio-{CLIENTS - 1}.log"
            reaches(lambda: f"the radio at {plutos.uris[-1]} is back" in log.read_text(), "the radio back")
            there = len(run.rows())
            reaches(lambda: any(row.absent_clients == 0 for row in run.rows()[there:]), "a round with all clients")
            assert all(row.absent_clients <= 1 for row in run.rows())
            family = family_of(process.pid)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=DEADLINE_SECONDS)
            assert process.returncode == EXIT_CODE, error
            assert "fl_app up --resume" in error
            assert_all_end(family)
            assert_as_found(plutos)
        finally:
            for pid in [*family, *family_of(process.pid), process.pid]:
                if is_running(pid):
                    os.kill(pid, signal.SIGKILL)
            process.wait()

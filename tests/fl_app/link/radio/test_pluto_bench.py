# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench as it stands in a laboratory: a Pluto for the server and for each client, a flowgraph for each Pluto, a
server and clients that train. The Plutos are virtual, and all machines are this one."""

import contextlib
import signal

import iio
import numpy as np
import pytest

from fl_app.core.streams import stream
from fl_app.link.keys import make_keys
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos
from oac_blocks.record.files import read, recordings
from oac_blocks.record.replay import replay
from tests.fl_app.link.test_faults import assert_whole
from tests.support.polling import until
from tests.support.ports import free_ports

CLIENTS, ROUNDS, K = 2, 6, 2000
MANY_ROUNDS = 10_000
RATE_HZ = 1e6
FORM_64 = {"fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 4}


class Bench:
    """Virtual Plutos in lock-step, their flowgraphs, a server and clients that vote at random."""

    def __init__(self, site, link_settings, plutos, rounds, *radio_options, **air):
        port = free_ports(6 + CLIENTS)
        address = f"tcp://127.0.0.1:{port}"
        self.site = site(
            link_settings(
                run={"rounds": rounds, "eval_every": 100_000, "checkpoint_every": 2},
                clients={"n": CLIENTS},
                selection={"k": K, "rho": None},
                air={"name": "gnuradio", **air},
                link={"radio": address, "audit_votes": True},
            )
        )
        settings = [word for name, value in air.items() for word in ("--set", f"air.{name}={value}")]
        common = ("--clients", CLIENTS, "--frequency", 2.45e9, "--port", port, *settings, *radio_options)
        self.server = self.site.server()
        self.rec = self.site.folder / "rec"
        recorded = ("--record", self.rec, "--record-mb", 30)
        self.radios = [self.site.command("radio-server", "radio", "--uri", plutos.uris[0], *common, *recorded)]
        for client, uri in enumerate(plutos.uris[1:]):
            self.radios.append(self.site.command(f"radio-{client}", "radio", "--uri", uri, "--client", client, *common))
            self.site.voter(client, radio=address)

    @property
    def rows(self):
        return self.site.run.rows()

    @property
    def logs(self):
        return "\n".join(command.text for command in self.site.commands)

    def reaches(self, condition, what):
        until(lambda: condition() or not self.server.is_running, what, hint=lambda: self.logs)
        assert condition(), self.logs

    def trains_to(self, rounds):
        self.reaches(lambda: len(self.rows) >= rounds, f"{rounds} rounds")


@pytest.fixture
def bench(site, link_settings):
    """Makes a bench: bench(rounds, *options of fl_app radio, **settings of the air) -> bench and virtual Plutos."""
    with contextlib.ExitStack() as stack:

        def make(rounds, *radio_options, spoil=lambda _uris: None, **air):
            plutos = stack.enter_context(VirtualPlutos(spread(1 + CLIENTS, 1, ppm=10.0, snr_db=25.0), lock_step=True))
            spoil(plutos.uris)
            made = Bench(site, link_settings, plutos, rounds, *radio_options, **air)
            stack.callback(made.site.close)
            return made, plutos

        yield make


def leave_unfit(uris):
    """What programs leave behind: an oscillator that is powered down, a state machine that does not run."""
    unfit = [("altvoltage1", "fdd"), ("altvoltage0", "alert"), ("altvoltage1", "alert")]
    for uri, (channel, ensm) in zip(uris, unfit, strict=True):
        context = iio.Context(uri)
        chip = context.find_device("ad9361-phy")
        chip.find_channel(channel, True).attrs["powerdown"].value = "1"
        chip.attrs["ensm_mode"].value = ensm


@pytest.mark.early
def test_unfit_radios_train_and_one_that_is_unplugged_for_a_second_comes_back(bench):
    made, plutos = bench(MANY_ROUNDS, spoil=leave_unfit)
    made.trains_to(2)
    assert [row.absent_clients for row in made.rows[:2]] == [0, 0], made.logs
    assert np.mean([row.vote_error_rate for row in made.rows[:2]]) < 1 / 8
    check_unplugged(made, plutos, seconds=1)
    for radio in made.radios:
        radio.send(signal.SIGTERM)
    assert [radio.wait() for radio in made.radios] == [0] * (1 + CLIENTS), made.logs
    again = [replay(read(path)) for path in recordings([made.rec])]
    assert {one.verdict for one in again} == {"equal"}
    assert sum(file.stat().st_size for file in made.rec.iterdir()) <= 30e6
    settings = [node.pluto.settings for node in plutos.air.nodes]
    assert [one.ensm_mode for one in settings[:2]] == ["fdd", "alert"]  # as they were found; the third began anew
    assert [(one.rx_lo_on, one.tx_lo_on) for one in settings[:2]] == [(True, False), (False, True)]


def check_unplugged(made, plutos, seconds, while_gone=lambda: None):
    """The last client's radio is gone for a while: training goes on, and the client is back."""
    radio = made.radios[-1]
    plutos.fault(f"unplug {CLIENTS} {seconds}")
    radio.says(f"the radio at {plutos.uris[-1]} is gone")
    while_gone()
    radio.says(f"the radio at {plutos.uris[-1]} is back")
    there = len(made.rows)
    made.reaches(lambda: any(row.absent_clients == 0 for row in made.rows[there:]), "a round with all clients")
    assert all(row.absent_clients <= 1 for row in made.rows)


@pytest.mark.slow
def test_training_goes_on_without_a_radio_that_is_unplugged_for_ten_seconds(bench):
    made, plutos = bench(MANY_ROUNDS)
    made.trains_to(2)
    before = len(made.rows)

    def train_without():
        made.reaches(lambda: any(row.absent_clients == 1 for row in made.rows[before:]), "a round without the client")

    check_unplugged(made, plutos, 10, train_without)


@pytest.mark.slow
def test_a_bench_with_a_64_point_fft_trains(bench):
    made, _ = bench(4, **FORM_64)
    assert made.server.wait() == 0, made.logs
    assert_whole(made.site.run, 4)
    assert np.mean([row.vote_error_rate for row in made.rows]) < 1 / 8
    symbols = -(-K // 24) + 4
    assert made.rows[-1].air_seconds == pytest.approx(symbols * 80 / 2.5e6)
    assert made.rows[-1].snr_db is not None


@pytest.mark.slow
def test_a_bench_carries_entries_as_energies(bench):
    """The mean over the clients of what they drew, with an error of the closed form for paths that do not fade."""
    made, _ = bench(3, mode="energy")
    assert made.server.wait() == 0, made.logs
    assert_whole(made.site.run, 3)
    assert [row.absent_clients for row in made.rows] == [0] * 3
    arrays, settings = made.site.run.latest().arrays, made.site.settings
    received = arrays["g"][arrays["age"] == 0]
    scheme, seed = settings.air.scheme, settings.run.seed
    sent = np.array([scheme.random_payload(K, stream(seed, "random votes", 2, n)) for n in range(CLIENTS)])
    slope = np.polyfit(sent.mean(axis=0), received, 1)[0]
    off = received - sent.mean(axis=0)
    # The product of two clients on one tone: 2 |a b| half of the time, over N^2; the noise adds some percent.
    expected = (2 / np.pi) / CLIENTS**2
    assert slope == pytest.approx(1.0, abs=0.1)
    assert expected * 0.8 < np.mean(off**2) < expected * 1.3


@pytest.mark.slow
def test_votes_go_from_machine_to_machine_by_radio(site, link_settings, short_folder):
    keys = short_folder / "keys"
    make_keys(keys, CLIENTS)
    port = free_ports(6 + CLIENTS)
    address = f"tcp://127.0.0.1:{port}"
    here = site(
        link_settings(
            run={"rounds": ROUNDS, "eval_every": 1000, "checkpoint_every": 2},
            clients={"n": CLIENTS},
            selection={"k": K, "rho": None},
            air={"name": "gnuradio", "sample_rate_hz": RATE_HZ},
            link={"radio": address, "audit_votes": True},
        )
    )
    common = ("--clients", CLIENTS, "--frequency", 2.45e9, "--rate", RATE_HZ, "--port", port, "--keys", keys)
    with VirtualPlutos(spread(1 + CLIENTS, 1, ppm=10.0, snr_db=25.0), lock_step=True) as plutos:
        server = here.server()
        here.command("radio-server", "radio", "--uri", plutos.uris[0], *common)
        for client, uri in enumerate(plutos.uris[1:]):
            here.command(f"radio-{client}", "radio", "--uri", uri, "--client", client, *common)
            here.voter(client, radio=address)
        try:
            assert server.wait() == 0, "\n".join(command.text for command in here.commands)
        finally:
            here.close()
    assert_whole(here.run, ROUNDS)
    rows = here.run.rows()
    assert sum(row.absent_clients for row in rows[1:]) <= 1
    # Without fading the tones of two clients that agree cancel in at most a quarter of all pairs of QPSK symbols, and
    # of these votes every other one is wrong.
    assert np.mean([row.vote_error_rate for row in rows[1:]]) < 1 / 8

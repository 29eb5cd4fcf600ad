# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench as processes: a server, clients that hand their votes to a radio, and a real flowgraph for all."""

import os
import signal

import numpy as np
import pytest

from fl_app.air import expected_vote_error_rate
from fl_app.core.streams import stream
from tests.fl_app.link.test_faults import assert_whole
from tests.support.polling import until
from tests.support.processes import children_of
from tests.support.runs import assert_every_round_once
from tests.support.vote_theory import vote_rate_std

CLIENTS = 2
SNR_DB = 10.0


@pytest.fixture
def bench(site, link_settings, short_folder):
    """Makes a site whose votes go by radio, and its flowgraph: bench(rounds, **link) -> site, address, flowgraph."""

    def make(rounds, *radio_options, air=None, **link):
        address = f"ipc://{short_folder}/radio"
        here = site(
            link_settings(
                run={"rounds": rounds, "eval_every": 1000, "checkpoint_every": 2},
                clients={"n": CLIENTS},
                selection={"rho": 0.02},
                air={"name": "gnuradio", "snr_db": SNR_DB, "profile": "eva", **(air or {})},
                link={"radio": address, **link},
            )
        )
        server = here.server()
        return here, server, address, here.radio(address, *radio_options)

    return make


def flowgraph_of(radio):
    """The process of the flowgraph itself, once it is there."""
    return until(lambda: children_of(radio.pid), "the flowgraph")[0]


def test_votes_by_radio_are_as_wrong_as_the_closed_form_says(bench):
    here, server, address, _ = bench(25, audit_votes=True)
    voters = [here.voter(number, radio=address) for number in range(CLIENTS)]
    assert server.wait() == 0, server.text
    assert [voter.wait() for voter in voters] == [0] * CLIENTS
    assert_whole(here.run, 25)
    rows = here.run.rows()[1:]
    assert [row.absent_clients for row in rows] == [0] * 24
    # Fair coins of two clients: where they disagree there is no majority, so all that are compared agree.
    expected = expected_vote_error_rate(np.ones((CLIENTS, 4), np.int8), 10 ** (SNR_DB / 10))
    rates = np.array([row.vote_error_rate for row in rows])
    # Which of the flowgraph's rounds carry votes differs from run to run, and so does their fading.
    assert abs(rates.mean() - expected) < 4 * vote_rate_std(CLIENTS, rows[0].k, SNR_DB) / np.sqrt(len(rates))
    assert all(0.3 * row.k < row.votes_compared < 0.7 * row.k for row in rows)


def test_entries_by_radio_are_the_mean_of_the_clients(bench):
    """The energy scheme: the server has neither entries nor votes, only what its radio received and the reports."""
    here, server, address, _ = bench(2, air={"mode": "energy", "snr_db": 30.0, "fading": "none", "profile": "flat"})
    voters = [here.voter(number, radio=address) for number in range(CLIENTS)]
    assert server.wait() == 0, server.text
    assert [voter.wait() for voter in voters] == [0] * CLIENTS
    assert_whole(here.run, 2)
    assert [row.absent_clients for row in here.run.rows()] == [0, 0]
    arrays, scheme = here.run.latest().arrays, here.settings.air.scheme
    received = arrays["g"][arrays["age"] == 0]  # the entries of the last round
    seed = here.settings.run.seed
    sent = [scheme.random_payload(received.size, stream(seed, "random votes", 1, n)) for n in range(CLIENTS)]
    off = received - np.mean(sent, axis=0)
    # Where both clients share a tone their product is the error: 2 |a b| in the square, half of the time, over N^2.
    expected = (2 / np.pi) / CLIENTS**2
    assert np.abs(off.mean()) < 4 * np.sqrt(expected / off.size)
    assert np.mean(off**2) == pytest.approx(expected, rel=0.1)


def test_server_knows_no_votes_unless_it_asks(bench):
    here, server, address, _ = bench(3)
    for number in range(CLIENTS):
        here.voter(number, radio=address)
    here.wait_for_rounds(2, server)
    assert children_of(server.pid) == []  # the flowgraph is that of `fl_app radio`: the server starts none of its own
    assert server.wait() == 0, server.text
    assert_whole(here.run, 3)
    assert [row.vote_error_rate for row in here.run.rows()] == [None] * 3
    assert all(row.snr_db is not None for row in here.run.rows())


def test_flowgraph_killed_and_started_again(bench):
    here, server, address, radio = bench(12)
    for number in range(CLIENTS):
        here.voter(number, radio=address)
    here.wait_for_rounds(4, server, radio)
    os.kill(flowgraph_of(radio), signal.SIGKILL)
    assert radio.wait() == 1
    assert "error: the flowgraph ended (exit status -9)" in radio.text
    before = len(here.run.rows())
    assert server.is_running
    here.radio(address)
    assert server.wait() == 0, server.text
    assert before < 12
    assert_whole(here.run, 12)


def test_client_killed_in_mid_round_is_not_waited_for_by_the_radios(bench):
    here, server, address, _ = bench(8)
    here.voter(0, radio=address)
    victim = here.voter(1, "lambda t: t == 3 and (print('in round 3', flush=True), signal.pause())", radio=address)
    victim.says("in round 3")
    victim.kill()
    assert server.wait() == 0, server.text
    assert_whole(here.run, 8)
    assert [row.absent_clients for row in here.run.rows()] == [0, 0, 0, 1, 1, 1, 1, 1]


@pytest.mark.slow
def test_client_frozen_between_its_answer_and_its_radio(bench):
    """It has said that it is done, and its votes never come: the round is played without them in the end."""
    here, server, address, _ = bench(6, "--arm-seconds", "0.5", silent_seconds=3.0, round_seconds=5.0)
    here.voter(0, radio=address)
    frozen = here.voter(1, radio=address)
    here.wait_for_rounds(2, server)
    frozen.send(signal.SIGSTOP)
    here.wait_for_rounds(5, server)
    frozen.send(signal.SIGCONT)
    assert server.wait() == 0, server.text
    assert_whole(here.run, 6)
    assert max(row.absent_clients for row in here.run.rows()) == 1


def test_client_without_a_radio_is_told(bench):
    here, server, _, radio = bench(3)
    lost = here.client(0, "--no-training")
    assert lost.wait() == 1
    assert "error: the votes of this run go by radio: give its flowgraph's address with --radio" in lost.text
    server.kill()
    radio.send(signal.SIGTERM)
    assert radio.wait() == 0, radio.text


@pytest.mark.slow
def test_server_killed_and_resumed_meets_the_same_flowgraph(bench):
    here, server, address, _ = bench(10)
    for number in range(CLIENTS):
        here.voter(number, radio=address)
    here.wait_for_rounds(5, server)
    server.kill()
    again = here.server()
    assert again.wait() == 0, again.text
    assert_every_round_once(here.run, 10)

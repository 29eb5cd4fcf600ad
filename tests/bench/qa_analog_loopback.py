# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of N clients through the air to their mean, in one flowgraph."""

import contextlib

import numpy as np
import pmt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oac_blocks.bench.flows.analog_loopback import AnalogLoopbackSettings, analog_loopback
from oac_blocks.bench.flows.analog_messages import Go, Payload, read_go, read_heard, read_payload
from oac_blocks.bench.flows.analog_rounds import Gathering
from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.pmt_bytes import deserialise, serialise
from oac_blocks.dsp.waveform.analog import common_scale
from oac_blocks.rounds.messages import Call
from tests.support.flowgraphs import Messages, post, running
from tests.support.polling import until
from tests.support.statistics import assert_mean

SCALE = common_scale(1.0)


class Rounds:
    """The application's side, in this process."""

    def __init__(self, flowgraph):
        self.flowgraph = flowgraph
        self._heard = Messages(flowgraph, flowgraph.rounds, "entries")
        self._asked = 0

    def ask(self, entries, takes_part=None, snr_db=None):
        """Post a round; entries (clients, k), of which only those who take part are sent, the last one first."""
        n, k = entries.shape
        takes_part, call = takes_part or (True,) * n, Call(self._asked, 7)
        self._asked += 1
        for client in reversed(range(n)):
            if takes_part[client]:
                post(self.flowgraph.rounds, "payload", Payload(call, client, entries[client]).message())
        post(self.flowgraph.rounds, "go", Go(call, k, takes_part, SCALE, snr_db).message())

    def heard(self):
        """What the server made of all rounds so far."""
        until(lambda: len(self._heard) == self._asked)
        heard = [read_heard(self._heard[i]) for i in range(self._asked)]
        assert [one.call for one in heard] == [Call(i, 7) for i in range(self._asked)]
        return [one.entries for one in heard]

    def go_round(self, *args, **kwargs):
        self.ask(*args, **kwargs)
        return self.heard()[-1]


@contextlib.contextmanager
def rounds_of(**settings):
    flowgraph = analog_loopback(AnalogLoopbackSettings(**{"symbols": 12, **settings}))
    rounds = Rounds(flowgraph)
    with running(flowgraph):
        yield rounds


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def test_without_noise_the_mean_is_exact():
    """Bursts of any length: one that fills the frame, one entry alone."""
    rng = np.random.default_rng(1)
    with rounds_of(clients=3) as rounds:
        for k in (5, 12 * 384, 1, 700):
            entries = normal(rng, 3, k)
            np.testing.assert_allclose(rounds.go_round(entries), entries.mean(axis=0), atol=1e-5)
        assert [block.dropped for block in rounds.flowgraph.counting_blocks] == [0] * 9


@pytest.mark.parametrize(
    "numerology",
    [
        {"fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 2},
        {"fft_size": 128, "cp_samples": 0, "active_subcarriers": 128, "dc_nulls": 0},
    ],
)
def test_other_numerologies(numerology):
    entries = normal(np.random.default_rng(7), 2, 12 * 2 * numerology["active_subcarriers"])
    with rounds_of(pilot_symbols=300, **numerology) as rounds:
        np.testing.assert_allclose(rounds.go_round(entries), entries.mean(axis=0), atol=1e-5)


def test_who_takes_no_part_is_silent_and_not_counted():
    entries = normal(np.random.default_rng(2), 3, 400)
    with rounds_of(clients=3) as rounds:
        heard = rounds.go_round(entries, (True, False, True))
    np.testing.assert_allclose(heard, entries[[0, 2]].mean(axis=0), atol=1e-5)


def test_clients_see_the_channel_of_their_own_burst():
    """With the whole channel inverted, nothing of the echoes is left: an estimate of any other draw would not do."""
    rng = np.random.default_rng(3)
    air = {"fading": "rayleigh", "profile": "epa", "inversion": "truncated", "least_magnitude": 1e-6}
    with rounds_of(clients=3, **air) as rounds:
        for _ in range(4):
            entries = normal(rng, 3, 3000)
            error = rounds.go_round(entries) - entries.mean(axis=0)
            assert np.sqrt(np.mean(error**2)) < 1e-4  # float32 over the weakest of 1,728 subcarriers


def test_what_is_left_of_the_channel_fades_as_it_should():
    """Each client has a band of its own, so that the server sees |h| of each: independent, of mean sqrt(pi) / 2."""
    clients, bursts = 8, 12
    entries = np.kron(np.eye(clients, dtype=np.float32), np.ones(384 // clients, np.float32))
    with rounds_of(clients=clients, fading="rayleigh") as rounds:
        heard = np.array([clients * rounds.go_round(entries) for _ in range(bursts)])
    magnitudes = heard.reshape(bursts, clients, -1)
    np.testing.assert_allclose(magnitudes, np.repeat(magnitudes[..., :1], 384 // clients, axis=2), atol=1e-5)
    draws = magnitudes[..., 0].ravel()
    assert len(np.unique(draws.round(5))) == len(draws)
    assert abs(draws.mean() - np.sqrt(np.pi) / 2) < 3 * np.sqrt((1 - np.pi / 4) / len(draws))


@pytest.mark.parametrize("pilot_symbols", [1, 4])
def test_error_is_the_noise_of_burst_and_pilot(pilot_symbols):
    """Entries of variance 1 and one scale: noise / N of the mean's own variance 1 / N comes from the burst.

    A pilot of P symbols leaves a phase error of variance noise / 2P on each subcarrier of each client, and the squared
    error of an entry that is turned by it is as large.
    """
    rng, clients, noise = np.random.default_rng(4), 4, 0.01
    ratios = []
    snr_db = -10 * np.log10(noise)
    with rounds_of(clients=clients, pilot_symbols=pilot_symbols, pilot_snr_db=snr_db) as rounds:
        for _ in range(16):
            entries = normal(rng, clients, 3000)
            error = rounds.go_round(entries, snr_db=snr_db) - entries.mean(axis=0)
            ratios.append(np.mean(error**2) * clients)
    expected = noise / clients + noise / (2 * pilot_symbols)
    # The errors of 192 subcarriers are independent, each of a variance known to a relative sqrt(2).
    assert_mean(ratios, expected, expected * np.sqrt(2 / 192))


def test_the_same_seed_gives_the_same_bits():
    """Also where the noise changes from round to round, and where the next round is there before the last is over."""
    entries = normal(np.random.default_rng(5), 2, 2000)
    heard = []
    for ahead in (False, True):
        with rounds_of(fading="rayleigh", profile="indoor", seed=9) as rounds:
            for snr_db in (20.0, None, 5.0, 0.0):
                rounds.ask(entries, snr_db=snr_db)
                if not ahead or snr_db is None:
                    rounds.heard()
            heard.append(rounds.heard())
    assert np.array_equal(heard[0], heard[1])
    assert not np.array_equal(heard[0][0], heard[0][2])


def test_what_makes_no_sense_is_dropped_and_the_next_round_goes_on():
    entries = normal(np.random.default_rng(6), 2, 100)
    call = Call(0, 1)
    bad = [
        ("go", pmt.PMT_T),
        ("go", pdus.make(np.ones(2, np.int8), {"round": 0})),
        ("go", Go(call, 100, (True,), SCALE).message()),
        ("go", Go(call, 12 * 384 + 1, (True, True), SCALE).message()),
        ("payload", pdus.make(np.ones(3, np.int8))),
        ("payload", Payload(call, 2, entries[0]).message()),
        ("payload", Payload(call, 0, np.full(100, np.nan, np.float32)).message()),
    ]
    with rounds_of() as rounds:
        for port, message in bad:
            post(rounds.flowgraph.rounds, port, message)
        # One more, which shows only when the round is whole: 99 entries and not 100.
        post(rounds.flowgraph.rounds, "payload", Payload(call, 0, entries[0, 1:]).message())
        post(rounds.flowgraph.rounds, "payload", Payload(call, 1, entries[1]).message())
        post(rounds.flowgraph.rounds, "go", Go(call, 100, (True, True), SCALE).message())
        until(lambda: rounds.flowgraph.rounds.dropped == len(bad) + 1)
        np.testing.assert_allclose(rounds.go_round(entries), entries.mean(axis=0), atol=1e-5)


@given(st.data())
def test_a_round_is_whole_when_the_last_of_its_messages_has_come(data):
    takes_part = tuple(data.draw(st.lists(st.booleans(), min_size=1, max_size=5).filter(any)))
    k, call = data.draw(st.integers(1, 4)), Call(3, 1)
    go = Go(call, k, takes_part, SCALE, data.draw(st.none() | st.floats(-200, 200)))
    rows = {i: np.full(k, i + 1, np.float32) for i, speaks in enumerate(takes_part) if speaks}
    messages = data.draw(st.permutations([go, *(Payload(call, i, row) for i, row in rows.items())]))
    gathering = Gathering(len(takes_part), 4)
    gathering.take_payload(Payload(Call(2, 1), 0, np.zeros(k, np.float32)))  # of a round that was given up
    for message in messages:
        assert gathering.whole() is None
        sent = deserialise(serialise(message.message()))
        if isinstance(message, Go):
            gathering.take_go(read_go(sent))
        else:
            gathering.take_payload(read_payload(sent))
    heard_go, heard_rows = gathering.whole()
    assert heard_go == go
    assert np.array_equal(heard_rows, [rows.get(i, np.zeros(k)) for i in range(len(takes_part))])
    assert gathering.whole() is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clients": 65}, "clients must be an integer from 1 to 64, got 65"),
        ({"symbols": 0}, "symbols must be"),
        ({"pilot_symbols": 0}, "pilot_symbols must be"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        AnalogLoopbackSettings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"entries": 0}, "entries must be"),
        ({"takes_part": (False, False)}, "takes_part must be true for at least one"),
        ({"scale": 0.0}, "scale must be"),
        ({"snr_db": 300.0}, "snr_db must be"),
        ({"adc_full_scale": float("nan")}, "adc_full_scale must be"),
    ],
)
def test_a_go_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Go(**{"call": Call(0, 0), "entries": 1, "takes_part": (True, True), "scale": 1.0, **wrong})


def test_what_is_no_pmt_is_refused():
    with pytest.raises(ValueError, match="a PMT"):
        deserialise(b"\xff\xff")

# SPDX-License-Identifier: GPL-3.0-or-later
"""The server receiver in a flowgraph: its messages against dsp's own stream, on the same samples."""

import math

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.server_receiver import MOST_ENERGIES, server_receiver
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp import Numerology
from oac_blocks.dsp.receive.server_stream import ServerStream
from oac_blocks.dsp.receive.vote_units import energies_per_voter
from oac_blocks.dsp.waveform.round_layout import AGREED, RoundLayout
from oac_blocks.dsp.waveform.schemes.energies import entry_order
from tests.dsp.receive.air_records import add_payload, add_sequences, add_trigger, amplitudes
from tests.support.flowgraphs import Messages, post, run, running, tag
from tests.support.polling import until
from tests.support.signals import noise

NUM = Numerology()
CHUNK = 4096
K = 960
LAYOUT = RoundLayout(NUM, 2, answer_samples=20_000, slot_samples=1280)
PARAMETERS = {"clients": 2, "votes": K, "answer_samples": 20_000, "slot_samples": 1280, "chunk_samples": CHUNK}
ROUND = 12 * CHUNK
VECTORS = ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db", "place_samples")


def one_round(rng, offsets=(1.0, -2.0), power_db=(0.0, -3.0), kind="payload", votes=K, layout=LAYOUT):
    x = noise(ROUND, 0.01, rng)
    add_trigger(x, 900.4)
    at, gains = 900.4 + layout.answer_samples, amplitudes(power_db, rng)
    if kind == "acquire":
        add_sequences(x, layout, at, offsets, gains)
    else:
        ballots = rng.choice(np.array([-1, 1], np.int8), (2, votes))
        add_payload(x, layout, at, ballots, offsets, gains, np.zeros(2), rng)
    return x.astype(np.complex64)


class Flowgraph:
    """Samples into the receiver, and what it says."""

    def __init__(self, x, receiver, tags=()):
        self.receiver = receiver
        self.top_block = gr.top_block()
        self.source = blocks.vector_source_c(x.tolist(), False, 1, list(tags))
        self.soft_votes, self.arrivals, self.energies = (
            Messages(self.top_block, receiver, port) for port in ("soft_votes", "arrivals", "energies")
        )
        self.top_block.connect(self.source, receiver)

    def run(self):
        run(self.top_block)
        return self

    def all_arrivals(self):
        return [pdus.read_notice(self.arrivals[i]) for i in range(len(self.arrivals))]


@pytest.mark.parametrize("chunk", [1000, CHUNK, ROUND])
def test_messages_are_what_the_stream_says(chunk):
    rng = np.random.default_rng(1)
    x = np.concatenate([one_round(rng) for _ in range(3)])
    flow = Flowgraph(x, server_receiver(**(PARAMETERS | {"chunk_samples": chunk}))).run()
    expected = ServerStream(LAYOUT, K).push(x)
    assert flow.receiver.rounds == len(expected) == 3
    arrivals = flow.all_arrivals()
    for message, heard in zip(arrivals, expected, strict=True):
        assert set(message) == {"round", "kind", "trigger_sample", *VECTORS, *AGREED}
        assert {name: message[name] for name in AGREED} == LAYOUT.agreed()
        assert (message["round"], message["kind"]) == (heard.round, "payload")
        assert message["trigger_sample"] == heard.trigger_sample
        for name in VECTORS:
            np.testing.assert_array_equal(message[name], getattr(heard, name))
    for pdu, heard in zip(flow.soft_votes.pdus(np.float32), expected, strict=True):
        energies = energies_per_voter(heard)
        np.testing.assert_array_equal(pdu.data, energies[0] - energies[1])
        about = {name: pmt.to_python(value) for name, value in pdu.metadata.items()}
        assert about == {
            "round": heard.round,
            "snr_db": heard.mean_snr_db,
            "trigger_sample": heard.trigger_sample,
            "heard": ", ".join(map(str, np.flatnonzero(np.isfinite(heard.offset_samples)))),
            **LAYOUT.agreed(),
        }
    for pdu, heard in zip(flow.energies.pdus(np.complex64), expected, strict=True):
        energies = energies_per_voter(heard)
        np.testing.assert_array_equal(pdu.data, energies[0] + 1j * energies[1])
    assert (flow.receiver.dropped, flow.receiver.bad_samples, flow.receiver.ignored_triggers) == (0, 0, 0)


def test_energies_are_what_the_scheme_says():
    """The two schemes that compare energies read the same pairs; `energy` has spread its entries over them."""
    x = one_round(np.random.default_rng(3))
    votes, energies = (Flowgraph(x, server_receiver(**PARAMETERS, scheme=name)).run() for name in ("onebit", "energy"))
    (by_votes,), (by_energies,) = votes.soft_votes.pdus(np.float32), energies.soft_votes.pdus(np.float32)
    np.testing.assert_array_equal(by_votes.data, by_energies.data[entry_order(len(by_votes.data))])


def test_only_the_first_energies_are_shown():
    rng = np.random.default_rng(2)
    votes = MOST_ENERGIES + 500
    flow = Flowgraph(one_round(rng, votes=votes), server_receiver(**(PARAMETERS | {"votes": votes}))).run()
    (soft,), (energies,) = flow.soft_votes.pdus(np.float32), flow.energies.pdus(np.complex64)
    assert (len(soft.data), len(energies.data)) == (votes, MOST_ENERGIES)
    np.testing.assert_array_equal(energies.data.real - energies.data.imag, soft.data[:MOST_ENERGIES])


class RoundByRound(gr.sync_block):
    """Gives the samples that it was told to give, and waits for more."""

    def __init__(self):
        gr.sync_block.__init__(self, "rounds", None, [np.complex64])
        self.waiting = np.empty(0, np.complex64)
        self.message_port_register_in(pmt.intern("go"))
        self.set_msg_handler(pmt.intern("go"), self._on_go)

    def _on_go(self, message):
        self.waiting = np.append(self.waiting, pdus.read(message, np.complex64).data)

    def work(self, _input_items, output_items):
        n = min(len(output_items[0]), len(self.waiting))
        output_items[0][:n] = self.waiting[:n]
        self.waiting = self.waiting[n:]
        return n


class LockStep:
    """One round at a time, as round control and trigger source would have it."""

    def __init__(self, receiver):
        self.receiver, self.source = receiver, RoundByRound()
        self.top_block = gr.top_block()
        self.order = Messages(self.top_block, receiver, "arrivals")
        self.soft_votes = Messages(self.top_block, receiver, "soft_votes")
        self.top_block.connect(self.source, receiver)

    def round(self, x, expect=None):
        if expect is not None:
            post(self.receiver, "expect", expect)
        done = self.receiver.nitems_read(0) + len(x)
        post(self.source, "go", pdus.make(x))
        until(lambda: self.receiver.nitems_read(0) == done)


def test_expectations_say_what_a_round_is():
    rng = np.random.default_rng(3)
    step = LockStep(server_receiver(**PARAMETERS))
    with running(step.top_block):
        step.round(one_round(rng), pdus.notice({"round": 5, "kind": "payload"}))
        until(lambda: len(step.order) == 1)
        first = pdus.read_notice(step.order[0])
        assert (first["round"], first["kind"]) == (5, "payload")
        offsets = (300.3, -250.8)
        step.round(one_round(rng, offsets, kind="acquire"), pdus.notice({"round": 6, "kind": "acquire"}))
        until(lambda: len(step.order) == 2)
        second = pdus.read_notice(step.order[1])
        assert (second["round"], second["kind"]) == (6, "acquire")
        np.testing.assert_allclose(second["offset_samples"], offsets, atol=0.05)
        assert np.isnan(second["cfo_rad"]).all()
        assert len(step.soft_votes) == 1
        expect = {"round": 9, "votes": 500, "run": 7, "voters": 1, "voting": "1"}
        step.round(one_round(rng, votes=500), pdus.to_dict(expect))
        until(lambda: len(step.order) == 3 and len(step.soft_votes) == 2)
        third = step.soft_votes.pdus(np.float32)[1]
        assert len(third.data) == 500
        assert [pmt.to_python(third.metadata[name]) for name in ("round", "run", "voters")] == [9, 7, 1]
        assert pmt.to_python(third.metadata["heard"]) == "1"  # client 0 was heard as well, and has no votes in it
        step.round(one_round(rng))
        until(lambda: len(step.order) == 4)
        assert pdus.read_notice(step.order[3])["round"] == 10


@pytest.mark.parametrize(
    "message",
    [
        pmt.PMT_NIL,
        pmt.from_long(3),
        pdus.notice({"kind": "payload"}),
        pdus.notice({"round": -1, "kind": "payload"}),
        pdus.notice({"round": 1, "kind": "rest"}),
        pdus.notice({"round": 1, "kind": "payload", "votes": 0}),
        pdus.notice({"round": "first", "kind": "payload"}),
    ],
)
def test_an_expectation_that_makes_no_sense_is_dropped(message):
    rng = np.random.default_rng(4)
    step = LockStep(server_receiver(**PARAMETERS))
    with running(step.top_block):
        step.round(one_round(rng), message)
        until(lambda: len(step.order) == 1)
    assert pdus.read_notice(step.order[0])["round"] == 0
    assert step.receiver.dropped == 1


def test_soft_votes_go_out_before_the_arrivals():
    """Both to one store: messages of one block to one port keep their order."""
    rng = np.random.default_rng(5)
    receiver = server_receiver(**PARAMETERS)
    flow = Flowgraph(np.concatenate([one_round(rng) for _ in range(3)]), receiver)
    store = blocks.message_debug()
    for port in ("soft_votes", "arrivals"):
        flow.top_block.msg_connect((receiver, port), (store, "store"))
    flow.run()
    order = ["kind" in pdus.from_dict(pmt.car(store.get_message(i))) for i in range(store.num_messages())]
    assert order == [False, True] * 3


def test_a_gap_gives_the_round_up_and_says_that_nobody_was_heard():
    rng = np.random.default_rng(6)
    x = np.concatenate([one_round(rng) for _ in range(3)])
    lost = tag(ROUND + 22_000, "rx_overflow", True)
    flow = Flowgraph(x, server_receiver(**PARAMETERS), [lost]).run()
    arrivals = flow.all_arrivals()
    assert [message["round"] for message in arrivals] == [0, 1, 2]
    assert [bool(np.isnan(message["offset_samples"]).all()) for message in arrivals] == [False, True, False]
    assert [pmt.to_python(pdu.metadata["round"]) for pdu in flow.soft_votes.pdus(np.float32)] == [0, 2]
    assert flow.receiver.dropped == 1


def test_a_failure_costs_a_round_and_no_more(monkeypatch):
    rng = np.random.default_rng(7)
    x = np.concatenate([one_round(rng) for _ in range(3)])
    push, calls = ServerStream.push, []

    def failing(stream, samples):
        calls.append(len(samples))
        if sum(calls) > ROUND + 22_000 and not failed:
            failed.append(True)
            raise RuntimeError("no memory left")
        return push(stream, samples)

    failed = []
    monkeypatch.setattr(ServerStream, "push", failing)
    flow = Flowgraph(x, server_receiver(**PARAMETERS)).run()
    assert flow.receiver.dropped == 1
    arrivals = flow.all_arrivals()
    assert arrivals[0]["round"] == 0
    assert np.isfinite(arrivals[0]["offset_samples"]).all()
    assert sum(calls) == len(x)


def test_bad_samples_are_counted():
    rng = np.random.default_rng(8)
    x = one_round(rng)
    x[[5000, 22_000]] = np.nan, np.inf
    flow = Flowgraph(x, server_receiver(**PARAMETERS)).run()
    assert (flow.receiver.bad_samples, flow.receiver.rounds, flow.receiver.dropped) == (2, 1, 0)


def test_a_flowgraph_that_is_started_again_begins_anew():
    rng = np.random.default_rng(9)
    flow = Flowgraph(np.concatenate([one_round(rng) for _ in range(2)]), server_receiver(**PARAMETERS))
    for _ in range(2):
        flow.source.rewind()
        flow.run()
        assert flow.receiver.rounds == 2
    arrivals = flow.all_arrivals()
    assert [message["round"] for message in arrivals] == [0, 1, 0, 1]
    assert arrivals[2]["trigger_sample"] == arrivals[0]["trigger_sample"]


def test_setters_apply_while_it_runs():
    rng = np.random.default_rng(10)
    receiver = server_receiver(**PARAMETERS)
    step = LockStep(receiver)
    rounds = 0

    def heard(x):
        nonlocal rounds
        step.round(x)
        rounds += 1
        until(lambda: len(step.order) == rounds)
        return pdus.read_notice(step.order[rounds - 1])

    with running(step.top_block):
        weak = one_round(np.random.default_rng(11), power_db=(0.0, -33.0))  # 13 dB below the noise
        assert np.isfinite(heard(weak)["offset_samples"]).all()
        receiver.set_false_alarm_per_client(1e-15)
        np.testing.assert_array_equal(np.isfinite(heard(weak)["offset_samples"]), [True, False])
        receiver.set_false_alarm_per_client(1e-6)
        receiver.set_votes(300)
        heard(one_round(rng, votes=300))
        until(lambda: len(step.soft_votes) == 3)
        assert len(step.soft_votes.pdus(np.float32)[2].data) == 300
        receiver.set_votes(K)
        x = one_round(rng)
        first = heard(x)
        receiver.set_early_samples(0)
        second = heard(x)
        assert not np.array_equal(first["offset_samples"], second["offset_samples"])
        receiver.set_early_samples(-1)
        np.testing.assert_allclose(heard(x)["offset_samples"], first["offset_samples"], atol=1e-6)
        receiver.set_tracking(False)
        receiver.set_lost_after_samples(1)
        receiver.set_false_alarm_per_sample(1e-6)
        heard(x)
        receiver.set_min_snr_db(60.0)
        step.round(x)
        assert receiver.rounds == rounds


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"clients": 0}, "clients"),
        ({"votes": 0}, "votes"),
        ({"repeats": 0}, "repeats"),
        ({"groups": 0}, "groups"),
        ({"answer_samples": -1}, "answer_samples"),
        ({"early_samples": -2}, "early_samples"),
        ({"early_samples": 65}, "early_samples"),
        ({"slot_samples": 100}, "slot_samples"),
        ({"false_alarm_per_client": 0.0}, "false_alarm_per_client"),
        ({"false_alarm_per_sample": math.nan}, "false_alarm_per_sample"),
        ({"max_cfo_rad": 2.0}, "max_cfo_rad"),
        ({"chunk_samples": 0}, "chunk_samples"),
        ({"scheme": "analog"}, "scheme"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        server_receiver(**arguments)

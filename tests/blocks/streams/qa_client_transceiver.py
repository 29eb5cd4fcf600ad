# SPDX-License-Identifier: GPL-3.0-or-later
"""The client transceiver: it does what ``dsp.client_stream`` does, and says so in tags and messages."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.client_transceiver import client_transceiver
from oac_blocks.blocks.support import pdus
from oac_blocks.dsp import Numerology
from oac_blocks.dsp.preamble import trigger
from oac_blocks.dsp.receive.client_stream import AnswerOrder, ClientStream, Status
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.waveform.answer import payload_answer
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.schemes import scheme_named
from tests.support.flowgraphs import Messages, post, run, tag, tags

VOTES, CHUNK, TURNAROUND = 1000, 8192, 40_000
SAMPLES = 24 * CHUNK
VOTE_VALUES = np.random.default_rng(5).integers(-1, 2, VOTES).astype(np.int8)


def received(*starts, samples=SAMPLES):
    rng = np.random.default_rng(1)
    x = 0.03 * rng.standard_normal((samples, 2)).view(np.complex128)[:, 0]
    for start in starts:
        x[start : start + len(trigger())] += trigger()
    return x.astype(np.complex64)


class Client:
    """Samples through a transceiver into a vector sink; what is posted before the run is there at its start."""

    def __init__(self, samples, stream_tags=(), **settings):
        settings = {"votes": VOTES, "turnaround_samples": TURNAROUND, "chunk_samples": CHUNK, **settings}
        self.block = client_transceiver(**settings)
        self.sink = blocks.vector_sink_c()
        self.top_block = gr.top_block()
        self.source = blocks.vector_source_c(samples.tolist(), False, 1, list(stream_tags))
        self.top_block.connect(self.source, self.block, self.sink)
        self.status = Messages(self.top_block, self.block, "status")

    def run(self, **messages):
        for port, message in messages.items():
            post(self.block, port, message)
        run(self.top_block)
        return np.array(self.sink.data(), np.complex64)

    def statuses(self):
        return [pdus.read_notice(self.status[i]) for i in range(len(self.status))]


def order(mode="payload", number=0, epoch=0, **fields):
    return pdus.notice({"client": 0, "round": number, "epoch": epoch, "mode": mode, "gain_db": 0.0, **fields})


def test_samples_are_those_of_the_dsp_core():
    x = received(5000)
    client = Client(x)
    out = client.run(orders=order(correction_samples=-12.25), payload=pdus.make(VOTE_VALUES, {"round": 0, "client": 0}))
    core = ClientStream(
        0, RoundLayout(Numerology(), 2), TriggerSearch(span_rows=32), turnaround_samples=TURNAROUND, votes=VOTES
    )
    core.order(AnswerOrder(0, 0, "payload", -12.25))
    core.payload(0, VOTE_VALUES)
    expected, [status] = core.push(x)
    assert np.array_equal(out, expected[: len(out)])
    assert len(out) == len(x)
    assert client.statuses() == [
        {"client": 0, "event": "armed", "round": 0, "epoch": 0, "votes": VOTES},
        {
            "client": 0,
            "event": "answered",
            "round": 0,
            "epoch": 0,
            "sent": "payload",
            "correction_samples": -12.25,
            "answer_sample": status.answer_sample,
            "trigger_sample": status.trigger_sample,
            "cfo_rad": status.cfo_rad,
            "snr_db": status.snr_db,
        },
    ]
    assert tags(client.sink) == [(round(status.answer_sample), "answer", 0)]
    assert (client.block.triggers, client.block.epoch, client.block.dropped) == (1, 0, 0)


def test_entries_of_the_energy_scheme_are_those_of_the_dsp_core():
    x, scheme = received(5000), scheme_named("energy")
    entries = np.random.default_rng(4).standard_t(3, VOTES).astype(np.float32)
    client, votes_instead = Client(x, scheme="energy"), Client(x, scheme="energy")
    out = client.run(orders=order(correction_samples=0.0), payload=pdus.make(entries, {"round": 0, "client": 0}))
    layout = RoundLayout(Numerology(), 2, scheme=scheme)
    core = ClientStream(0, layout, TriggerSearch(span_rows=32), turnaround_samples=TURNAROUND, votes=VOTES)
    core.order(AnswerOrder(0, 0, "payload"))
    core.payload(0, entries)
    assert np.array_equal(out, core.push(x)[0][: len(out)])
    assert client.block.dropped == 0
    votes_instead.run(orders=order(correction_samples=0.0), payload=pdus.make(VOTE_VALUES, {"round": 0, "client": 0}))
    assert votes_instead.block.dropped == 1
    assert [status["sent"] for status in votes_instead.statuses() if status["event"] == "answered"] == ["sync"]


def test_the_first_votes_of_a_run_may_be_read_before_its_first_orders():
    """GNU Radio reads the ports in any order, and the orders of a new run make votes void that came before them."""
    block, told = client_transceiver(votes=VOTES), []
    block._tell = told.extend
    post(block, "orders", order(run=77))
    block._on_payload(pdus.make(VOTE_VALUES, {"round": 0}))  # while the orders wait in their queue
    assert told == [Status("armed", 0, 0, VOTES, run=77)]


def test_an_acquire_order_is_answered_in_the_slot():
    client = Client(received(5000), slot_samples=4096)
    out = client.run(orders=order("acquire", correction_samples=0.0))
    assert [s["event"] for s in client.statuses()] == ["armed", "answered"]
    assert np.flatnonzero(out)[0] == pytest.approx(5000 + TURNAROUND + 2048, abs=1)
    assert np.count_nonzero(out) == 320


def ballot(votes, takes_part, **fields):
    return pdus.make(np.array(takes_part, np.int8), {"round": 0, "run": 0, "votes": votes, **fields})


@pytest.mark.parametrize("takes_part", [[0, 1], [1, 1]])
def test_who_has_no_votes_in_a_ballot_is_measured_all_the_same(takes_part):
    """The frame is as long as the others' frames; who takes part is waited for, who does not is armed at once."""
    client = Client(received(5000))
    post(client.block, "orders", order())
    out = client.run(orders=ballot(300, takes_part))
    *armed, answered = client.statuses()
    assert [one["votes"] for one in armed] == ([] if takes_part[0] else [300])
    assert answered["event"] == "answered"
    silence = np.zeros(300, np.int8)
    burst = payload_answer(silence, 0, RoundLayout(Numerology(), 2), np.random.default_rng(1))
    begin = round(answered["answer_sample"])
    assert not out[: begin - 1].any()
    assert not out[begin + len(burst) + 1 :].any()
    sync = np.flatnonzero(np.abs(burst) > 1e-3)
    assert np.mean(np.abs(out[begin + sync]) > 1e-3) > 0.98


def test_messages_for_other_clients_are_ignored():
    client = Client(received(5000))
    other = pmt.dict_add(pmt.car(order()), pmt.intern("client"), pmt.from_long(1))
    out = client.run(orders=pmt.cons(other, pmt.make_u8vector(0, 0)), payload=pdus.make(VOTE_VALUES, {"client": 1}))
    assert not out.any()
    assert [s["event"] for s in client.statuses()] == ["abstained"]
    assert client.block.dropped == 0


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("orders", pmt.PMT_T),
        ("orders", pdus.notice({"round": 0})),
        ("orders", order("sing")),
        ("orders", order(epoch=7)),
        ("orders", ballot(300, [])),
        ("orders", ballot(300, [1, 0], run=9)),
        ("orders", ballot(0, [0, 0])),
        ("orders", order(correction_samples="much")),
        ("payload", pmt.PMT_NIL),
        ("payload", pdus.make(np.array([2], np.int8), {})),
        ("payload", pdus.make(np.array([0.5], np.float32), {})),
        ("payload", pdus.make(VOTE_VALUES, {"round": -3})),
        ("payload", pdus.make(VOTE_VALUES, {"round": "three"})),
    ],
)
def test_bad_messages_are_counted_and_the_stream_goes_on(port, message):
    client = Client(received(5000))
    out = client.run(**{port: message})
    assert client.block.dropped == 1
    assert len(out) == SAMPLES
    assert not out.any()


@pytest.mark.parametrize(
    "gap_tags",
    [
        [tag(20_000, "overflow", True)],
        [tag(20_000, "rx_overflow", True)],
        [tag(0, "rx_time", (10, 0.5)), tag(20_000, "rx_time", (10, 0.5 + 20_100 / 20e6))],
    ],
)
def test_a_gap_starts_a_new_epoch_and_the_client_abstains(gap_tags):
    """The trigger before the gap is void, the one after it is heard and not answered."""
    client = Client(received(10_000, 60_000), gap_tags)
    out = client.run(orders=order(correction_samples=0.0))
    assert not out.any()
    assert [(s["event"], s["epoch"]) for s in client.statuses()] == [("gap", 1), ("abstained", 1)]
    assert client.block.epoch == 1
    assert not client.block.calibrated


def test_a_time_tag_where_it_should_be_is_no_gap():
    stamps = [tag(0, "rx_time", (3, 0.9999)), tag(20_000, "rx_time", (4, 0.0009))]
    client = Client(received(10_000), stamps)
    out = client.run(orders=order(correction_samples=0.0))
    assert out.any()
    assert client.block.epoch == 0


def test_a_start_with_an_epoch_of_its_own_is_announced():
    client = Client(received(5000), first_epoch=1000)
    out = client.run(orders=order(epoch=0, correction_samples=5.0))  # of an earlier start
    assert not out.any()
    first = client.statuses()[0]
    assert (first["event"], first["epoch"], first["reason"]) == ("gap", 1000, "started")
    assert client.block.dropped == 1


@pytest.mark.parametrize("value", [("now", 0.5), (float("nan"), 0.0), (1, 2, 3), "noon"])
def test_a_time_tag_that_holds_no_time_is_left_alone(value):
    client = Client(received(10_000), [tag(0, "rx_time", (3, 0.0)), tag(20_000, "rx_time", value)])
    out = client.run(orders=order(correction_samples=0.0))
    assert out.any()
    assert client.block.epoch == 0


def test_a_gap_told_by_a_message_counts():
    client = Client(received(5000))
    client.run(gap=pmt.intern("the transmit buffer ran dry"))
    first = client.statuses()[0]
    assert (first["event"], first["epoch"], first["reason"]) == ("gap", 1, "the transmit buffer ran dry")


def test_receive_tags_do_not_reach_what_is_sent():
    client = Client(received(5000), [tag(100, "rx_freq", 2.4e9)])
    client.run()
    assert tags(client.sink) == []


def test_settings_apply_while_it_runs():
    client = Client(received(5000), wait_for_orders=False)
    client.block.set_amplitude(0.25)
    client.block.set_votes(96)
    client.block.set_turnaround_samples(50_000)
    client.block.set_correct_cfo(False)
    client.block.set_min_snr_db(-5.0)
    client.block.set_false_alarm_per_sample(1e-8)
    client.block.set_tracking(False)
    client.block.set_lost_after_samples(1_000_000)
    out = client.run()
    sent = np.flatnonzero(out)
    assert sent[0] == pytest.approx(55_000, abs=1)
    assert len(sent) == 320  # of one payload symbol that is silent and one sync symbol, the latter
    grid_power = np.sum(np.abs(out[sent[64:]]) ** 2) / 192
    assert grid_power == pytest.approx(0.25**2, rel=1e-3)


def test_bad_samples_are_silence_and_counted():
    x = received(5000)
    x[70_000] = np.nan
    client = Client(x, wait_for_orders=False)
    out = client.run()
    assert np.isfinite(out).all()
    assert client.block.bad_samples == 1


def test_a_second_run_begins_anew():
    client = Client(received(5000), wait_for_orders=False)
    first = client.run()
    client.sink.reset()
    client.source.rewind()
    assert np.array_equal(client.run(), first)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"client": 2}, "client must be"),
        ({"turnaround_samples": 31_000}, "turnaround_samples must be"),
        ({"slot_samples": 100}, "slot_samples must be"),
        ({"chunk_samples": 0}, "chunk_samples must be"),
        ({"max_cfo_rad": 2.0}, "max_cfo_rad must be"),
        ({"seed": -1}, "seed must be"),
        ({"scheme": "analog"}, "scheme must be one that compares energies, got 'analog'"),
        ({"scheme": "morse"}, "unknown scheme 'morse'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        client_transceiver(**settings)


@pytest.mark.parametrize(("name", "value"), [("fft_size", 64), ("sample_rate_hz", 1e6), ("groups", 2)])
def test_an_order_of_another_waveform_is_not_followed(name, value):
    payload = pdus.make(VOTE_VALUES, {"round": 0, "client": 0})
    waveform = RoundLayout(Numerology(), 2).agreed()
    same, other = Client(received(5000)), Client(received(5000))
    same.run(orders=order(correction_samples=0.0, **waveform), payload=payload)
    other.run(orders=order(correction_samples=0.0, **waveform | {name: value}), payload=payload)
    assert [status["event"] for status in same.statuses()] == ["armed", "answered"]
    assert (same.block.dropped, other.block.dropped) == (0, 1)
    assert "answered" not in [status["event"] for status in other.statuses()]

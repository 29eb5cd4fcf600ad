# SPDX-License-Identifier: GPL-3.0-or-later
"""A client's streams: the answer is on the sample, or on the fraction of one, whatever the clocks and the cuts are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import fsk_mv, ofdm
from oac_blocks.dsp.bounds import delay_crlb
from oac_blocks.dsp.channel.resampling import resample_exact
from oac_blocks.dsp.preamble import client_sequence, estimate_arrival, estimate_shared, trigger
from oac_blocks.dsp.receive.client_stream import AnswerOrder, ClientStream
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.waveform.answer import payload_answer, sequence_answer
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout

NUM = Numerology()
LAYOUT = RoundLayout(NUM, clients=3, slot_samples=2048, clients_per_slot=2)
VOTES = 500
TURNAROUND = 20_000


def client(number=1, **settings):
    search = TriggerSearch(span_rows=4)
    settings = {"turnaround_samples": TURNAROUND, "votes": VOTES, **settings}
    return ClientStream(number, LAYOUT, search, **settings)


def ballots(seed=0):
    return np.random.default_rng(seed).integers(-1, 2, VOTES).astype(np.int8)


def received(*times, samples=80_000, snr_db=30.0, cfo_rad=0.0, seed=3):
    """Triggers at these times, fractional ones too, in noise."""
    rng = np.random.default_rng(seed)
    sigma = np.sqrt(0.5 / 10 ** (snr_db / 10))
    x = sigma * rng.standard_normal((samples, 2)).view(np.complex128)[:, 0]
    for time in times:
        whole = int(np.floor(time))
        around = np.arange(-64, len(trigger()) + 64)
        x[whole + around] += resample_exact(trigger(), around - (time - whole)) * np.exp(1j * cfo_rad * around)
    return x.astype(np.complex64)


def run(stream, x, cuts=()):
    parts, statuses = [], []
    for piece in np.split(x, sorted(cuts)):
        out, happened = stream.push(piece)
        assert len(out) == len(piece)
        parts.append(out)
        statuses += happened
    return np.concatenate(parts), statuses


def order(stream, number=0, mode="payload", correction=0.0, gain_db=0.0, epoch=None):
    return stream.order(AnswerOrder(number, stream.epoch if epoch is None else epoch, mode, correction, gain_db))


def test_the_answer_carries_the_votes_and_the_sync_symbols():
    votes = ballots()
    samples = payload_answer(votes, 1, LAYOUT, np.random.default_rng(1))
    frame = LAYOUT.frame(VOTES)
    grid = ofdm.demodulate(samples, NUM)
    assert len(samples) == frame.samples
    soft = fsk_mv.detect(grid[~frame.is_sync()], VOTES, NUM)
    assert np.array_equal(np.sign(np.rint(soft)), votes)
    for symbol in samples.reshape(frame.symbols, -1)[frame.is_sync()]:
        arrivals = estimate_shared(symbol, LAYOUT.clients, NUM)
        assert np.allclose(np.abs(arrivals.amplitude), [0, 1, 0], atol=1e-3)
        assert abs(arrivals.delay_samples[1]) < 1e-3


@given(st.floats(-0.5, 0.5))
@settings(max_examples=20, deadline=None)
def test_a_fraction_delays_by_exactly_that(fraction):
    moved = np.pad(sequence_answer(2, LAYOUT, fraction), 64)
    fit = estimate_arrival(moved[None], client_sequence(2, NUM), np.array([64.0]), fit_cfo=False)
    # The prefix turns with the symbol where a delayed stream would bring silence: one sample of 320 at most differs.
    assert fit.time_samples[0] - 64 == pytest.approx(fraction, abs=0.01)


@pytest.mark.parametrize("ppm", [-150.0, -20.0, 0.0, 20.0, 150.0])
def test_a_stretched_answer_is_in_time_from_its_first_symbol_to_its_last(ppm):
    """Seen by the server's clock, whose sample n is the client's n (1 + p), nothing is left of the rate."""
    layout = RoundLayout(NUM, clients=3)
    votes = np.random.default_rng(2).integers(-1, 2, 150 * NUM.votes_per_symbol).astype(np.int8)
    frame = layout.frame(len(votes))
    sent = payload_answer(votes, 1, layout, np.random.default_rng(1), drift_ppm=ppm)
    straight = payload_answer(votes, 1, layout, np.random.default_rng(1))
    assert len(sent) - len(straight) == round(1e-6 * ppm * (frame.samples - NUM.symbol_samples))
    heard = resample_exact(sent, np.arange(frame.samples) * (1 + 1e-6 * ppm)).astype(np.complex64)
    grid = ofdm.demodulate(heard, NUM, early_samples=8)
    wanted = ofdm.demodulate(straight, NUM)
    # Within a symbol the rate remains: 256 samples at 150 ppm are 0.04 samples from end to end.
    tolerance = 10 ** (-40 / 20) + 1e-6 * abs(ppm) * NUM.fft_size / 2 * np.pi * 0.8
    assert np.max(np.sqrt(np.mean(np.abs(grid - wanted) ** 2, axis=1))) < tolerance


@pytest.mark.parametrize("time", [5000.0, 5000.25, 5000.5, 5000.9])
@pytest.mark.parametrize("correction", [0.0, -3.3, 700.125])
def test_the_answer_stands_where_trigger_turnaround_and_correction_say(time, correction):
    stream, votes = client(), ballots()
    assert order(stream, correction=correction) == []
    assert [s.event for s in stream.payload(0, votes)] == ["armed"]
    out, [status] = run(stream, received(time))
    assert (status.event, status.sent, status.round, status.epoch) == ("answered", "payload", 0, 0)
    # 30 dB: the bound is 0.0013 samples.
    assert status.trigger_sample == pytest.approx(time, abs=6 * np.sqrt(delay_crlb(trigger(), 1e3)))
    begin = status.trigger_sample + TURNAROUND + correction
    assert status.answer_sample == begin
    whole = round(begin)
    rng = np.random.default_rng((1, 1, 0))
    expected = payload_answer(votes, 1, LAYOUT, rng, begin - whole, stream.cfo_rad)
    assert np.array_equal(out[whole : whole + len(expected)], expected)
    assert not out[:whole].any()
    assert not out[whole + len(expected) :].any()


def test_the_answer_arrives_at_the_servers_frequency():
    """The client hears the server at -0.01 rad/sample, so what it sends is heard at +0.01 unless it turns it back."""
    stream = client()
    order(stream, mode="acquire")
    out, [status] = run(stream, received(5000.0, cfo_rad=-0.01))
    assert status.cfo_rad == pytest.approx(-0.01, abs=1e-4)
    heard = out * np.exp(0.01j * np.arange(len(out)))
    start = status.answer_sample
    fit = estimate_arrival(heard[None], client_sequence(1, NUM), np.array([start]), np.zeros(1))
    assert abs(fit.cfo_rad_per_sample[0]) < 1e-4
    assert fit.time_samples[0] == pytest.approx(start, abs=0.02)


def test_an_acquire_order_sends_the_own_sequence_in_the_own_slot_once():
    stream = client(2)
    assert [s.event for s in order(stream, 4, "acquire")] == ["armed"]
    out, statuses = run(stream, received(5000.0, 40_000.0))
    assert [(s.event, s.sent) for s in statuses] == [("answered", "acquire"), ("abstained", None)]
    start = round(statuses[0].answer_sample)
    assert start == 5000 + TURNAROUND + 2048 + 1024  # the second slot's middle
    assert np.count_nonzero(out) == NUM.symbol_samples
    assert statuses[1].reason == "round 4 is already answered, and there is no order for the next one"


def test_without_a_payload_in_time_there_are_sync_symbols_alone():
    stream = client()
    order(stream, 7)
    out, [status] = run(stream, received(5000.0))
    assert (status.sent, status.round) == ("sync", 7)
    frame = LAYOUT.frame(VOTES)
    start = round(status.answer_sample)
    symbols = out[start : start + frame.samples].reshape(frame.symbols, -1)
    assert np.array_equal(symbols.any(axis=1), frame.is_sync())


def test_nobody_answers_without_an_order():
    out, [status] = run(client(), received(5000.0))
    assert not out.any()
    assert (status.event, status.reason) == ("abstained", "not calibrated: there is no order for this epoch")


def test_free_running_answers_without_an_order():
    stream = client(wait_for_orders=False)
    out, [status] = run(stream, received(5000.0))
    assert (status.event, status.sent, status.correction_samples) == ("answered", "sync", 0.0)
    assert out.any()


def test_gain_and_amplitude_scale_the_answer():
    loud, quiet = client(), client(amplitude=0.5)
    order(loud), order(quiet, gain_db=-6.0)
    energies = [np.vdot(out, out).real for out, _ in (run(s, received(5000.0)) for s in (loud, quiet))]
    assert energies[1] / energies[0] == pytest.approx(0.25 * 10**-0.6, rel=1e-4)


def test_a_gap_voids_orders_payload_and_what_is_being_sent():
    stream = client()
    order(stream)
    stream.payload(0, ballots())
    x = received(5000.0)
    out, [status] = run(stream, x[:30_000])
    sent = round(status.answer_sample)
    assert sent + 320 < 30_000 < sent + LAYOUT.frame(VOTES).samples + 5000
    gap = stream.gap("test")
    assert (gap.event, gap.epoch, stream.epoch, stream.calibrated) == ("gap", 1, 1, False)
    out, statuses = run(stream, received(5000.0))
    assert not out.any()
    assert [s.event for s in statuses] == ["abstained"]
    assert statuses[0].trigger_sample == pytest.approx(35_000, abs=0.02)
    with pytest.raises(ValueError, match="epoch of an order must be the present one, 1, got 0"):
        order(stream, 1, epoch=0)
    order(stream, 1, epoch=1)
    assert stream.calibrated


def test_late_and_repeated_messages_are_refused():
    stream = client()
    order(stream, 3)
    stream.payload(3, ballots())
    run(stream, received(5000.0))
    with pytest.raises(ValueError, match="round of a payload must be after the last answer's, 3, got 3"):
        stream.payload(3, ballots())
    with pytest.raises(ValueError, match="round of an order must be after the last answer's, 3, got 2"):
        order(stream, 2)
    assert stream.payload(None, ballots()) == []
    assert [s.round for s in order(stream, 4)] == [4]


def test_an_order_is_good_for_one_answer():
    """A false trigger after the true one must not make the client count its rounds on by itself."""
    stream = client()
    order(stream, 5)
    stream.payload(5, ballots())
    _, statuses = run(stream, received(5000.0, 40_000.0))
    assert [(s.event, s.round) for s in statuses] == [("answered", 5), ("abstained", 6)]
    order(stream, 6)
    assert [s.round for s in stream.payload(6, ballots())] == [6]
    _, [status] = run(stream, received(5000.0))
    assert (status.sent, status.round) == ("payload", 6)


def test_votes_of_later_rounds_wait():
    stream = client()
    order(stream, 2)
    for number in (7, 3, 2):
        stream.payload(number, ballots(number))
    sent = []
    for number in (2, 3):
        if number == 3:
            assert [s.round for s in order(stream, 3)] == [3]
        _, statuses = run(stream, received(5000.0))
        sent += [(s.sent, s.round) for s in statuses]
    assert sent == [("payload", 2), ("payload", 3)]
    for number in range(8, 15):
        stream.payload(number, ballots())
    with pytest.raises(ValueError, match="one of at most 8 that wait"):
        stream.payload(10**9, ballots())
    stream.gap("test")
    stream.payload(10**9, ballots())  # and bars nobody
    assert order(stream, 4, epoch=1) == []
    assert [s.round for s in stream.payload(4, ballots())] == [4]


def test_a_server_that_begins_anew_is_followed():
    stream = client()
    order(stream, 900)
    run(stream, received(5000.0))
    with pytest.raises(ValueError, match="round of an order must be after the last answer's, 900, got 0"):
        order(stream, 0)
    assert [s.round for s in stream.order(AnswerOrder(0, 0, "acquire", run=77))] == [0]
    _, [status] = run(stream, received(5000.0))
    assert (status.event, status.sent, status.round) == ("answered", "acquire", 0)


def test_votes_for_a_server_of_before_are_refused():
    """They may name a round that is still to come."""
    stream = client()
    stream.order(AnswerOrder(3, 0, "payload", run=77))
    for late in (lambda: stream.payload(3, ballots(), run=76), lambda: stream.ballot(3, VOTES, False, run=76)):
        with pytest.raises(ValueError, match="run must be the present one, 77, got 76"):
            late()
    assert [s.round for s in stream.payload(3, ballots(), run=77)] == [3]


@pytest.mark.parametrize("mode", ["silent", "acquire"])
def test_votes_that_will_not_be_sent_do_not_count(mode):
    stream = client()
    stream.payload(0, ballots())
    [armed] = order(stream, mode=mode)
    assert (armed.event, armed.votes) == ("armed", None)


def test_of_two_triggers_before_an_answer_the_stronger_counts():
    """A false trigger is weak."""
    stream = client()
    order(stream)
    x = received(9000.0) + 0.3 * received(3000.0, seed=4, snr_db=60)
    _, statuses = run(stream, x.astype(np.complex64))
    assert [s.event for s in statuses] == ["answered"]
    assert statuses[0].trigger_sample == pytest.approx(9000, abs=0.02)


def test_an_answer_that_would_begin_before_the_trigger_is_known_is_not_sent():
    stream = client()
    order(stream, correction=-19_990.0)
    out, [status] = run(stream, received(5000.0), cuts=range(1000, 80_000, 1000))
    assert not out.any()
    assert status.reason.startswith("too late by")


def test_every_trigger_of_a_long_record_is_answered():
    stream = client(wait_for_orders=False)
    times = [3000.0 + 30_000 * i for i in range(4)]
    x = received(*times, samples=150_000)
    out, statuses = run(stream, x)
    assert [s.round for s in statuses] == [0, 1, 2, 3]
    starts = [round(s.answer_sample) for s in statuses]
    assert np.allclose(starts, np.array(times) + TURNAROUND, atol=1)
    assert all(out[start] != 0 for start in starts)


RECORD = received(5000.3, 33_000.7, samples=80_000, snr_db=5.0)


@given(st.lists(st.integers(1, 79_999), max_size=12))
@settings(max_examples=25, deadline=None)
def test_cuts_change_nothing(cuts):
    def answers(cuts):
        stream = client(wait_for_orders=False)
        stream.payload(0, ballots())
        return run(stream, RECORD, cuts)

    (whole, told), (pieces, told_in_pieces) = answers(()), answers(set(cuts))
    assert np.array_equal(whole, pieces)
    assert told == told_in_pieces


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"turnaround_samples": 100}, "turnaround_samples must be"),
        ({"votes": 0}, "votes must be"),
        ({"amplitude": -1.0}, "amplitude must be"),
        ({"number": 3}, "client must be"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        client(**settings)


@pytest.mark.parametrize("votes", [np.array([2], np.int8), np.array([], np.int8), np.array([1.0])])
def test_bad_votes(votes):
    with pytest.raises(ValueError, match=r"(votes|payload) must be"):
        client().payload(0, votes)


def test_layouts_of_rounds():
    assert [LAYOUT.slot_of(c) for c in range(3)] == [0, 0, 1]
    assert [list(LAYOUT.clients_in_slot(s)) for s in range(LAYOUT.slots)] == [[0, 1], [2]]
    assert LAYOUT.acquisition_samples == 4096
    with pytest.raises(ValueError, match="slot_samples must be even"):
        RoundLayout(NUM, slot_samples=2049)
    with pytest.raises(ValueError, match="client must be"):
        LAYOUT.sequence_start_samples(3)

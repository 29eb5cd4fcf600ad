# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds out of the server's stream, against the DSP core on the same samples, closed forms and bounds."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import Numerology, bounds, channel, frame, fsk_mv, ofdm
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.preamble import TriggerSearch, shared_slot, trigger
from oac_blocks.dsp.receive.server_stream import ServerStream
from oac_blocks.dsp.receive.shared_burst import LARGEST_DRIFT_PPM, estimate_burst
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from tests.dsp.receive.air_records import add, add_payload, add_sequences, add_trigger, amplitudes, bursts
from tests.support.signals import noise
from tests.support.statistics import assert_mean, share_std

NUM = Numerology()
EARLY = NUM.cp_samples // 3
VECTORS = ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db", "place_samples")
K = 960
TRIGGER_AT = 700.3


def small(clients=2, **options):
    """Short rounds: answers come while the search still looks at the trigger."""
    return RoundLayout(NUM, clients, **({"answer_samples": 1500, "slot_samples": 1280} | options))


def round_samples(layout, votes=K):
    """A round, and as much again as the search needs to be sure of the next one's trigger."""
    return layout.answer_samples + max(layout.frame(votes).samples, layout.acquisition_samples) + 6000


def random_votes(layout, rng, k=K):
    return rng.choice(np.array([-1, 0, 1], np.int8), (layout.clients, k))


def payload_round(layout, rng, offsets=None, power_db=None, cfos=None, noise_power=0.01, at=TRIGGER_AT, k=K):
    n = layout.clients
    offsets, power_db, cfos = (np.zeros(n) if v is None else np.asarray(v) for v in (offsets, power_db, cfos))
    x = noise(round_samples(layout, k), noise_power, rng)
    add_trigger(x, at)
    votes = random_votes(layout, rng, k)
    add_payload(x, layout, at + layout.answer_samples, votes, offsets, amplitudes(power_db, rng), cfos, rng)
    return x.astype(np.complex64)


def acquire_round(layout, rng, offsets, power_db, at=TRIGGER_AT):
    x = noise(round_samples(layout), 0.01, rng)
    add_trigger(x, at)
    add_sequences(x, layout, at + layout.answer_samples, offsets, amplitudes(power_db, rng))
    return x.astype(np.complex64)


def flushed(stream):
    """What the search still holds back."""
    return stream.push(np.zeros(stream.search.latency_samples, np.complex64))


def only(heard):
    assert len(heard) == 1
    return heard[0]


def assert_same(heard, expected):
    assert len(heard) == len(expected)
    for one, other in zip(heard, expected, strict=True):
        about = [(h.round, h.kind, h.trigger_sample, h.trigger_snr_db) for h in (one, other)]
        assert about[0] == about[1]
        for name in VECTORS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in ("soft_votes", "energies"):
            a, b = getattr(one, name), getattr(other, name)
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("answer_samples", [0, 1500, 40_000])
@pytest.mark.parametrize(("clients", "repeats"), [(1, 1), (3, 2)])
def test_soft_votes_are_those_of_the_core_on_the_same_samples(answer_samples, clients, repeats):
    rng = np.random.default_rng([1, answer_samples, clients])
    layout = small(clients, repeats=repeats, answer_samples=max(answer_samples, 300))
    rounds = [payload_round(layout, rng, at=600 + 50.17 * i) for i in range(4)]
    x = np.concatenate(rounds)
    stream = ServerStream(layout, K)
    heard = stream.push(x) + flushed(stream)
    assert [h.round for h in heard] == [0, 1, 2, 3]
    starts = np.cumsum([0] + [len(part) for part in rounds[:-1]])
    for i, (start, h) in enumerate(zip(starts, heard, strict=True)):
        assert h.kind == "payload"
        assert h.trigger_sample == pytest.approx(start + 600 + 50.17 * i, abs=0.05)
        cut = round(h.trigger_sample) + layout.answer_samples
        form = layout.frame(K)
        grid = ofdm.demodulate(frame.payload_of(x[cut : cut + form.samples], form), NUM, EARLY)
        np.testing.assert_array_equal(h.soft_votes, fsk_mv.detect(grid, K, NUM, repeats))
        np.testing.assert_array_equal(h.energies, fsk_mv.energies(grid, K, NUM, repeats))
        assert h.soft_votes.dtype == np.float32


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=6).filter(lambda sizes: max(sizes) > 100),
    kinds=st.lists(st.sampled_from(["payload", "acquire", None]), min_size=2, max_size=4),
    answer_samples=st.sampled_from([300, 1500, 20_000]),
)
def test_the_cut_of_the_stream_changes_no_bit(seed, sizes, kinds, answer_samples):
    rng = np.random.default_rng(seed)
    layout = small(3, answer_samples=answer_samples)
    whole, pieces = ServerStream(layout, K, span_rows=2), ServerStream(layout, K, span_rows=2)
    expected, heard = [], []
    cut = itertools.cycle(sizes)
    for number, kind in enumerate(kinds):
        offsets = rng.uniform(-3, 3, 3)
        make = acquire_round if kind == "acquire" else payload_round
        x = make(layout, rng, offsets, rng.uniform(-10, 5, 3), at=rng.uniform(400, 900))
        x = np.append(x, noise(3000, 0.01, rng).astype(np.complex64))  # the search is sure before the next word comes
        if kind is not None:
            whole.expect(10 * number, kind)
            pieces.expect(10 * number, kind)
        expected += whole.push(x)
        begin = 0
        while begin < len(x):
            size = next(cut)
            heard += pieces.push(x[begin : begin + size])
            begin += size
    assert len(expected) == len(kinds)
    assert_same(heard, expected)


@pytest.mark.parametrize("clients", [1, 2, 8])
@pytest.mark.parametrize("snr_db", [3.0, 20.0])
def test_offsets_and_frequencies_reach_the_bounds(clients, snr_db):
    """The trigger is as strong a sample as a client's subcarrier; offsets have its error and their own."""
    rng = np.random.default_rng([2, clients, int(snr_db)])
    layout, rounds = small(clients), 160 // clients
    snr = 10 ** (snr_db / 10)
    stream = ServerStream(layout, K, span_rows=2)
    form = layout.frame(K)
    starts = form.sync_starts_samples()
    omega = 2 * np.pi * NUM.subcarrier_frequencies()
    own = 1 / (2 * snr * NUM.active_subcarriers * form.groups * np.var(omega))
    bound = math.sqrt(own + bounds.joint_crlb(trigger(), snr)[0])
    # A phase has variance 1 / (2 E/N0); the slope of a line through phases at these times.
    cfo_bound = math.sqrt(1 / (2 * snr * NUM.active_subcarriers) / (form.groups * np.var(starts)))
    errors, cfo_errors, said, powers, snrs = [], [], [], [], []
    for _ in range(rounds):
        offsets, cfos = rng.uniform(-6, 6, clients), rng.uniform(-1e-4, 1e-4, clients)
        x = payload_round(layout, rng, offsets, None, cfos, 1 / snr, at=rng.uniform(500, 900))
        heard = only(stream.push(x) + stream.push(noise(4000, 1 / snr, rng).astype(np.complex64)))
        errors.append(heard.offset_samples - offsets)
        cfo_errors.append(heard.cfo_rad - cfos)
        said.append(heard.sigma_samples)
        powers.append(heard.power_db)
        snrs.append(heard.snr_db)
    # The RMS of a trigger's error is known to 1 / sqrt(2 rounds). Neighbours and a search for the frequency, which the
    # server's own trigger does not have, cost a little.
    tolerance = 3 / math.sqrt(2 * rounds) + 0.1
    assert np.sqrt(np.mean(np.square(errors))) / bound == pytest.approx(1, abs=tolerance)
    assert np.sqrt(np.mean(np.square(cfo_errors))) / cfo_bound == pytest.approx(1, abs=3 / math.sqrt(320) + 0.1)
    assert np.sqrt(np.mean(np.square(said))) / bound == pytest.approx(1, abs=0.1)
    assert np.mean(powers) == pytest.approx(0, abs=0.2)
    assert np.mean(snrs) == pytest.approx(snr_db, abs=0.3)


def test_an_acquire_round_measures_the_clients_that_answer():
    rng = np.random.default_rng(3)
    layout = small(6)
    stream = ServerStream(layout, K)
    stream.expect(17, "acquire")
    offsets, power_db = rng.uniform(-300, 300, 6), np.array([0, 10, -np.inf, 5, 0, -np.inf])
    x = acquire_round(layout, rng, offsets, power_db)
    heard = only(stream.push(x) + flushed(stream))
    assert (heard.round, heard.kind, heard.soft_votes, heard.energies) == (17, "acquire", None, None)
    answers = np.isfinite(power_db)
    np.testing.assert_allclose(heard.offset_samples[answers], offsets[answers], atol=0.1)
    np.testing.assert_allclose(heard.power_db[answers], power_db[answers], atol=0.5)
    np.testing.assert_allclose(heard.snr_db[answers], power_db[answers] + 20, atol=1.5)
    assert np.isnan(heard.cfo_rad).all()
    places = [layout.sequence_start_samples(client) for client in range(6)]
    np.testing.assert_array_equal(heard.place_samples[answers], np.array(places)[answers])
    for name in VECTORS:
        assert np.isnan(getattr(heard, name)[~answers]).all()


def test_a_silent_client_is_nan_and_a_weak_one_is_not():
    rng = np.random.default_rng(4)
    layout = small(4)
    stream = ServerStream(layout, K)
    x = payload_round(layout, rng, [1, 2, -3, 0.5], [0, -np.inf, -25, -np.inf], [1e-4] * 4, 0.01)
    heard = only(stream.push(x) + flushed(stream))
    for name in VECTORS:
        np.testing.assert_array_equal(np.isfinite(getattr(heard, name)), [True, False, True, False])
    np.testing.assert_allclose(heard.offset_samples[[0, 2]], [1, -3], atol=0.3)
    np.testing.assert_array_equal(heard.place_samples[[0, 2]], layout.frame(K).sync_starts_samples().mean())
    assert heard.mean_snr_db == pytest.approx(20 - 3, abs=0.5)


@pytest.mark.parametrize(("clients", "false_alarm"), [(1, 0.1), (2, 0.05), (8, 0.02), (50, 0.01), (64, 0.01)])
def test_noise_is_heard_as_often_as_asked_for(clients, false_alarm):
    rng = np.random.default_rng([5, clients])
    bursts_, heard = max(40, 300 // clients), 0
    for _ in range(bursts_):
        syncs = noise(4 * NUM.symbol_samples, 1.0, rng).reshape(4, -1).astype(np.complex64)
        found = estimate_burst(syncs, 18_560 * np.arange(4), clients, NUM, EARLY, false_alarm)
        heard += np.count_nonzero(np.isfinite(found.power))
    expected = false_alarm * clients * bursts_
    assert 0.3 * expected - 3 * math.sqrt(0.3 * expected) < heard < expected + 3 * math.sqrt(expected)


@pytest.mark.parametrize("distance", [18_560, 91_000])
@pytest.mark.parametrize("ppm", [-LARGEST_DRIFT_PPM, 7.0, LARGEST_DRIFT_PPM])
def test_a_clock_that_runs_through_the_burst(distance, ppm):
    """The offset is that of the sync symbols' middle; 40 ppm are 11 samples from first to last in the longest burst."""
    rng = np.random.default_rng([6, distance, int(ppm) + 50])
    starts = distance * np.arange(4)
    offsets = np.array([0.4, -1.3])
    x = np.stack([noise(NUM.symbol_samples + 64, 0.1, rng) for _ in starts])
    for client, slot in enumerate(shared_slot(2, NUM)):
        for row, start in zip(x, starts, strict=True):
            drift = 1e-6 * ppm * (start - starts.mean())
            # The prefix goes on before and behind, as neighbouring symbols would not matter.
            longer = np.concatenate((slot[-NUM.fft_size :][-32 - NUM.cp_samples : -NUM.cp_samples], slot, slot[64:96]))
            add(row, longer, offsets[client] + drift)
    found = estimate_burst(x[:, 32:-32].astype(np.complex64), starts, 2, NUM, EARLY)
    bound = math.sqrt(1 / (2 * 10 * NUM.active_subcarriers * 4 * np.var(2 * np.pi * NUM.subcarrier_frequencies())))
    np.testing.assert_allclose(found.delay_samples, offsets, atol=5 * bound)
    np.testing.assert_allclose(found.sigma_samples, bound, rtol=0.15)


# Equal echoes over 48 samples: a Rayleigh channel that changes every few subcarriers, inside the prefix of 64.
DENSE = DelayProfile(tuple(i / NUM.sample_rate_hz for i in range(48)), (0.0,) * 48)


@pytest.mark.parametrize(("k_plus", "k_minus", "snr_db", "repeats"), [(1, 0, 10, 1), (2, 1, 10, 1), (3, 1, 0, 2)])
def test_votes_through_multipath_err_as_often_as_the_closed_form_says(k_plus, k_minus, snr_db, repeats):
    rng = np.random.default_rng([7, k_plus, k_minus, snr_db + 100])
    k, clients = 480, k_plus + k_minus
    layout = small(clients, repeats=repeats)
    votes = np.repeat(np.array([1, -1], np.int8), [k_plus, k_minus])[:, None].repeat(k, axis=1)
    stream = ServerStream(layout, k, early_samples=8, span_rows=2)
    link = channel.Link(fading="rayleigh", profile=DENSE)
    receiver = channel.Receiver(snr_db=None)
    rates = []
    for _ in range(120):
        x = noise(round_samples(layout, k), 10 ** (-snr_db / 10), rng)
        add_trigger(x, 600.0, 3.0)
        sent = bursts(layout, votes, rng)
        n = sent.shape[-1] + 64
        received = channel.transmit(sent, [link] * clients, receiver, NUM.sample_rate_hz, rng, n).samples
        x[600 + layout.answer_samples :][:n] += received
        (heard,) = stream.push(x.astype(np.complex64))
        rates.append(np.mean(heard.soft_votes < 0))
    expected = bounds.mv_error_probability(k_plus, k_minus, 10 ** (snr_db / 10), repeats)
    # Votes of one round share their fades, so rounds are what counts.
    assert_mean(rates, expected, share_std(expected))


def test_rounds_are_counted_on_and_the_latest_word_counts():
    rng = np.random.default_rng(8)
    layout = small(1)
    stream = ServerStream(layout, K, span_rows=2)

    def next_round(k=K):
        x = payload_round(layout, rng, k=k)
        return only(stream.push(np.append(x, noise(3000, 0.01, rng).astype(np.complex64))))

    assert next_round().round == 0
    assert next_round().round == 1
    stream.expect(9, "acquire")
    stream.expect(7)
    heard = next_round()
    assert (heard.round, heard.kind, len(heard.soft_votes)) == (7, "payload", K)
    stream.expect(20, "payload", 500)
    assert len(next_round(500).soft_votes) == 500
    stream.set_votes(300)
    heard = next_round(300)
    assert (heard.round, len(heard.soft_votes)) == (21, 300)
    stream.reset()
    assert next_round(300).round == 0


@pytest.mark.parametrize("pieces", [1, 7, 100])
def test_a_trigger_that_does_not_come_ends_the_round_after_so_many_samples(pieces):
    """By samples and not by seconds: however slowly they come, no round is given up early."""
    rng = np.random.default_rng(8)
    layout = small(2)
    stream = ServerStream(layout, K, span_rows=2, patience_samples=50_000)
    silence = noise(49_999, 0.01, rng).astype(np.complex64)
    stream.expect(4)
    assert [heard for piece in np.array_split(silence, pieces) for heard in stream.push(piece)] == []
    missed = only(stream.push(silence[:1]))
    assert (missed.round, missed.kind, missed.soft_votes) == (4, "payload", None)
    assert math.isnan(missed.trigger_sample)
    assert np.isnan(missed.offset_samples).all()
    stream.expect(5)
    x = payload_round(layout, rng)
    assert only(stream.push(np.append(x, noise(3000, 0.01, rng).astype(np.complex64)))).round == 5
    assert stream.push(silence) == []  # nothing is expected, so nothing is missed


def test_a_second_trigger_in_a_round_is_counted_and_ignored():
    rng = np.random.default_rng(9)
    layout = small(2)
    x = payload_round(layout, rng).astype(np.complex128)
    add_trigger(x, TRIGGER_AT + 700)
    stream = ServerStream(layout, K, span_rows=4)
    heard = only(stream.push(x.astype(np.complex64)) + flushed(stream))
    assert heard.trigger_sample == pytest.approx(TRIGGER_AT, abs=0.05)
    assert stream.ignored_triggers == 1
    assert np.isfinite(heard.offset_samples).all()


def test_a_round_that_the_end_of_the_stream_cuts_gives_nothing():
    rng = np.random.default_rng(10)
    layout = RoundLayout(NUM, 2, answer_samples=40_000)
    x = payload_round(layout, rng)
    end = round(TRIGGER_AT) + layout.answer_samples + layout.frame(K).samples
    stream = ServerStream(layout, K)
    assert stream.push(x[: end - 1]) == []
    assert len(stream.push(x[end - 1 : end])) == 1


def test_a_gap_gives_the_round_up_and_the_next_one_is_sound():
    rng = np.random.default_rng(11)
    layout = RoundLayout(NUM, 2, answer_samples=40_000)
    x = payload_round(layout, rng, [1, -2])
    stream = ServerStream(layout, K)
    assert stream.gap() == []
    assert stream.push(x[:30_000]) == []
    broken = only(stream.gap(at=100_000))
    assert (broken.round, broken.soft_votes) == (0, None)
    for name in VECTORS:
        assert np.isnan(getattr(broken, name)).all()
    heard = only(stream.push(x))
    assert heard.round == 1
    assert heard.trigger_sample == pytest.approx(100_000 + TRIGGER_AT, abs=0.05)
    np.testing.assert_allclose(heard.offset_samples, [1, -2], atol=0.05)


def test_bad_samples_are_silence_and_counted():
    rng = np.random.default_rng(12)
    layout = RoundLayout(NUM, 2, answer_samples=40_000)
    x = payload_round(layout, rng)
    bad = [100, 20_000, 41_000, 42_000]
    clean, dirty = x.copy(), x.copy()
    clean[bad] = 0
    dirty[bad] = np.nan, np.inf, complex(1, -np.inf), 3e38
    streams = ServerStream(layout, K), ServerStream(layout, K)
    with np.errstate(all="raise"):
        assert_same(streams[0].push(dirty), streams[1].push(clean))
    assert (streams[0].bad_samples, streams[1].bad_samples) == (4, 0)


def test_noiseless_rounds_and_a_level_of_any_height():
    rng = np.random.default_rng(13)
    layout = small(3)
    x = payload_round(layout, rng, [1.25, -2.5, 0.0], noise_power=0.0)
    for level in (1e-5, 1.0, 1e5):
        stream = ServerStream(layout, K)
        heard = only(stream.push(np.float32(level) * x) + flushed(stream))
        np.testing.assert_allclose(heard.offset_samples, [1.25, -2.5, 0], atol=2e-3)
        np.testing.assert_allclose(heard.power_db, 20 * math.log10(level), atol=0.01)
    silent = payload_round(layout, rng, None, [-np.inf] * 3, noise_power=0.0)
    stream = ServerStream(layout, K)
    heard = only(stream.push(silent) + flushed(stream))
    assert np.isnan(heard.offset_samples).all()
    assert math.isnan(heard.mean_snr_db)


def test_settings_apply_while_it_runs():
    rng = np.random.default_rng(14)
    layout = small(2)
    x = payload_round(layout, rng, [0, 0], [0.0, -27.0], noise_power=0.03)
    x = np.append(x, noise(3000, 0.03, rng).astype(np.complex64))
    stream = ServerStream(layout, K, span_rows=2)
    before = only(stream.push(x))
    assert np.isfinite(before.offset_samples).all()
    stream.set_early_samples(0)
    stream.set_false_alarm_per_client(1e-15)
    after = only(stream.push(x))
    np.testing.assert_array_equal(np.isfinite(after.offset_samples), [True, False])
    assert not np.array_equal(before.soft_votes, after.soft_votes)


@pytest.mark.parametrize("to", [5000, 7333])
def test_a_search_that_skips_finds_what_begins_behind_the_gap(to):
    """Sample for sample like a search that begins there, but for the count."""
    rng = np.random.default_rng(15)
    x = noise(40_000, 0.1, rng)
    for at in (1000.2, to - 200.0, to + 3.4, 20_000.6):
        add_trigger(x, at)
    x = x.astype(np.complex64)
    search, fresh = TriggerSearch(span_rows=2, tracking=False), TriggerSearch(span_rows=2, tracking=False)
    assert [d.sample for d in search.push(x[:4200])] == [1000]
    search.skip_to(to)
    found, expected = search.push(x[to:]), fresh.push(x[to:])
    assert [round(d.time_samples, 1) for d in found] == pytest.approx([to + 3.4, 20_000.6], abs=0.15)
    np.testing.assert_allclose([d.time_samples for d in found], [to + d.time_samples for d in expected], rtol=1e-12)
    assert [d.cfo_rad_per_sample for d in found] == [d.cfo_rad_per_sample for d in expected]


def test_a_search_says_how_much_it_wants():
    rng = np.random.default_rng(16)
    x = noise(30_000, 0.1, rng).astype(np.complex64)
    search = TriggerSearch(span_rows=2)
    begin = 0
    while begin < len(x):
        wanted = search.wanted_samples
        assert wanted > 0
        search.push(x[begin : begin + wanted - 1])
        assert search.wanted_samples == 1 or begin + wanted - 1 > len(x)
        search.push(x[begin + wanted - 1 : begin + wanted])
        begin += wanted


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"votes": 0}, "votes"),
        ({"early_samples": 65}, "early_samples"),
        ({"false_alarm_per_sample": 1.0}, "false_alarm_per_sample"),
        ({"false_alarm_per_client": 0.0}, "false_alarm_per_client"),
        ({"max_cfo_rad": -1.0}, "max_cfo_rad"),
        ({"lost_after_samples": 0}, "lost_after_samples"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        ServerStream(small(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "name"), [((-1,), "round"), (("1",), "round"), ((1, "pause"), "kind"), ((1, "payload", 0), "votes")]
)
def test_a_bad_expectation_is_named_and_changes_nothing(arguments, name):
    stream = ServerStream(small(1), K)
    stream.expect(5)
    with pytest.raises(ValueError, match=rf"{name} must be"):
        stream.expect(*arguments)
    x = payload_round(small(1), np.random.default_rng(17))
    assert only(stream.push(x) + flushed(stream)).round == 5


@pytest.mark.parametrize(
    ("num", "clients"),
    [
        (Numerology(fft_size=64, cp_samples=16, active_subcarriers=48, dc_nulls=4), 3),
        (Numerology(fft_size=128, cp_samples=128, active_subcarriers=128, dc_nulls=0), 2),
        (Numerology(fft_size=1024, cp_samples=72, active_subcarriers=600, dc_nulls=2), 4),
    ],
)
@pytest.mark.parametrize(("groups", "k"), [(1, 40), (5, 700)])
def test_other_numerologies(num, clients, groups, k):
    rng = np.random.default_rng([18, num.fft_size, groups])
    layout = RoundLayout(num, clients, groups=groups, answer_samples=2000, slot_samples=6 * num.symbol_samples)
    offsets = rng.uniform(-1, 1, clients)
    stream = ServerStream(layout, k)
    x = payload_round(layout, rng, offsets, noise_power=1e-3, k=k)
    heard = only(stream.push(x) + flushed(stream))
    # Neighbouring symbols reach into one another where the prefix is short: sharp bursts between the samples.
    np.testing.assert_allclose(heard.offset_samples, offsets, atol=0.15)
    assert np.isfinite(heard.cfo_rad).all() == (layout.frame(k).groups > 1)
    stream.expect(1, "acquire")
    heard = only(stream.push(acquire_round(layout, rng, offsets, np.zeros(clients))) + flushed(stream))
    np.testing.assert_allclose(heard.offset_samples, offsets, atol=0.15)

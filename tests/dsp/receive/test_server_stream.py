# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds out of the server's stream, against the DSP core on the same samples, closed forms and bounds."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp import bounds, channel, frame, fsk_mv, ofdm
from oac_blocks.dsp.channel.fading import DelayProfile
from oac_blocks.dsp.preamble import shared_slot, trigger
from oac_blocks.dsp.receive.server_stream import ServerStream
from oac_blocks.dsp.receive.shared_burst import LARGEST_DRIFT_PPM, estimate_burst
from tests.dsp.receive.air_records import add, add_trigger, bursts
from tests.dsp.receive.server_rounds import (
    EARLY,
    NUM,
    VECTORS,
    K,
    acquire_round,
    assert_same,
    flushed,
    only,
    payload_round,
    round_samples,
    small,
)
from tests.support.signals import noise
from tests.support.statistics import assert_mean, share_std


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

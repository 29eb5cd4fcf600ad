# SPDX-License-Identifier: GPL-3.0-or-later
import numpy as np
import pytest
import scipy.signal

from oac_blocks.dsp import Numerology, bounds, fsk_mv, ofdm, preamble
from oac_blocks.dsp.receive.detection import trigger_metric
from oac_blocks.dsp.waveform.sequences import golay_pair, root_raised_cosine, zadoff_chu
from tests.support.signals import noise

NUM = Numerology()
WAVEFORMS = {
    "trigger": preamble.trigger(),
    "client 0": preamble.client_sequence(0, NUM),
    "client 40": preamble.client_sequence(40, NUM),
}


def received(waveform, times, cfos, snr, rng, length):
    """Records with the waveform at fractional times, moved in the frequency domain and turned about its middle."""
    spectrum = np.fft.fft(np.pad(waveform, (0, length - len(waveform))))
    x = np.fft.ifft(spectrum * np.exp(-2j * np.pi * np.fft.fftfreq(length) * times[:, None]))
    x *= np.exp(1j * cfos[:, None] * (np.arange(length) - times[:, None] - (len(waveform) - 1) / 2))
    x *= np.exp(2j * np.pi * rng.random((len(times), 1)))
    return (x + noise(x.shape, np.mean(np.abs(waveform) ** 2) / snr, rng)).astype(np.complex64)


def test_golay_pair_is_complementary():
    a, b = golay_pair(32)
    total = np.correlate(a, a, "full") + np.correlate(b, b, "full")
    assert set(np.abs(a)) == {1.0}
    np.testing.assert_array_equal(total, 64 * (np.arange(-31, 32) == 0))


@pytest.mark.parametrize("root", [1, 25, 192])
def test_zadoff_chu_is_flat_and_uncorrelated_with_its_shifts(root):
    z = zadoff_chu(root, 193)
    np.testing.assert_allclose(np.abs(z), 1)
    periodic = np.fft.ifft(np.abs(np.fft.fft(z)) ** 2)
    np.testing.assert_allclose(periodic, 193 * (np.arange(193) == 0), atol=1e-9)


def test_two_zadoff_chu_roots_correlate_by_one_over_root_193():
    a, b = np.fft.fft(zadoff_chu(5, 193)), np.fft.fft(zadoff_chu(17, 193))
    np.testing.assert_allclose(np.abs(np.fft.ifft(a * b.conj())), np.sqrt(193), rtol=1e-9)


def test_two_root_raised_cosines_make_a_nyquist_pulse():
    pulse = root_raised_cosine(4, 0.5, 20)
    chips = np.convolve(pulse, pulse)[::4]
    middle = len(chips) // 2
    assert chips[middle] == pytest.approx(1)
    assert np.abs(np.delete(chips, middle)).max() < 1e-3


def test_the_trigger_is_four_golay_sequences():
    """A matched filter at chip rate gives the 128 chips back."""
    x = preamble.trigger()
    assert x.dtype == np.complex64
    assert np.mean(np.abs(x) ** 2) == pytest.approx(1)
    chips = np.convolve(x.real, root_raised_cosine(2, 0.5, 6))[24 : 24 + 256 : 2]
    np.testing.assert_array_equal(np.sign(chips), np.tile(golay_pair(32)[0], 4))


@pytest.mark.parametrize("name", WAVEFORMS)
def test_normalised_correlation_is_the_definition(name):
    rng = np.random.default_rng(1)
    waveform = WAVEFORMS[name]
    x = noise(20_000, 1.0, rng)
    x[7000 : 7000 + len(waveform)] += 2 * waveform * np.exp(1j * 0.02 * np.arange(len(waveform)))
    x = x.astype(np.complex64)
    measured = preamble.normalised_correlation(x, waveform, 0.02)
    turned = waveform * np.exp(1j * 0.02 * np.arange(len(waveform)))
    numerator = np.abs(scipy.signal.correlate(x, turned, "valid", method="direct"))
    energy = np.convolve(np.abs(x) ** 2, np.ones(len(waveform)), "valid")
    np.testing.assert_allclose(measured, numerator / np.sqrt(energy) / np.linalg.norm(waveform), atol=2e-5)
    assert measured.argmax() == 7000


def test_silence_gives_no_trigger_and_no_nan():
    x = np.zeros(50_000, np.complex64)
    x[20_000 : 20_000 + 280] = preamble.trigger()
    found = preamble.find_triggers(x)
    assert len(found) == 1
    assert found[0].time_samples == pytest.approx(20_000, abs=1e-4)
    assert preamble.find_triggers(np.zeros(5000, np.complex64)) == []


def test_noise_passes_the_threshold_as_often_as_asked():
    """False alarms at one frequency, per sample, at a rate that can be measured; independent samples 64 apart."""
    rng = np.random.default_rng(2)
    wanted = 1e-3
    threshold = preamble.trigger_threshold(wanted, hypotheses=1)
    metric = trigger_metric(noise(8_000_000, 1.0, rng).astype(np.complex64), (0.0,))[0]
    rate = np.mean(metric > threshold)
    assert rate == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize("cfo", [-0.15, -0.075, 0.0, 0.025, 0.1, 0.15])
def test_all_triggers_are_found_at_minus_5_db(cfo):
    rng = np.random.default_rng(3)
    starts = 3000 * np.arange(1, 101) + rng.integers(0, 1000, 100)
    x = noise(310_000, 10**0.5, rng)
    turn = np.exp(1j * cfo * np.arange(280))
    for start in starts:
        x[start : start + 280] += preamble.trigger() * turn
    found = preamble.find_triggers(x.astype(np.complex64))
    assert len(found) == 100
    times = np.array([d.time_samples for d in found])
    frequencies = np.array([d.cfo_rad_per_sample for d in found])
    delay_bound, cfo_bound = bounds.joint_crlb(preamble.trigger(), 10**-0.5)
    # 100 errors of the bound's size: their RMS is within 5 / sqrt(200) of it, and threshold effects add a little.
    assert np.sqrt(np.mean((times - starts) ** 2)) < 1.5 * np.sqrt(delay_bound)
    assert np.sqrt(np.mean((frequencies - cfo) ** 2)) < 1.5 * np.sqrt(cfo_bound)


def test_nothing_but_noise_is_no_trigger():
    rng = np.random.default_rng(4)
    assert preamble.find_triggers(noise(2_000_000, 1.0, rng).astype(np.complex64)) == []


def test_a_detection_splits_its_time():
    rng = np.random.default_rng(5)
    x = received(preamble.trigger(), np.array([500.75]), np.array([0.01]), 1000.0, rng, 2000)[0]
    (found,) = preamble.find_triggers(x)
    assert found.sample == 500
    assert found.fraction == pytest.approx(0.75, abs=0.02)
    assert found.snr == pytest.approx(1000, rel=0.4)
    assert 0.9 < found.metric <= 1


# Root 1 is the slowest chirp: at 0 dB the search along its ridge now and then takes a neighbouring lobe.
@pytest.mark.parametrize(
    ("name", "snr_db"),
    [(name, snr_db) for name in WAVEFORMS for snr_db in (0, 5, 15, 30) if (name, snr_db) != ("client 0", 0)],
)
def test_arrival_time_and_frequency_reach_the_joint_bound(name, snr_db):
    rng = np.random.default_rng([6, snr_db])
    waveform, trials, snr = WAVEFORMS[name], 2000, 10 ** (snr_db / 10)
    times, cfos = 60 + rng.uniform(0, 1, trials), rng.uniform(-0.01, 0.01, trials)
    x = received(waveform, times, cfos, snr, rng, len(waveform) + 200)
    fit = preamble.estimate_arrival(x, waveform, np.rint(times))
    delay_bound, cfo_bound = bounds.joint_crlb(waveform, snr)
    # An RMS over 2,000 trials has a relative standard error of 1.6 %: 5 % below the bound cannot happen.
    time_ratio = np.sqrt(np.mean((fit.time_samples - times) ** 2) / delay_bound)
    cfo_ratio = np.sqrt(np.mean((fit.cfo_rad_per_sample - cfos) ** 2) / cfo_bound)
    assert 0.95 < time_ratio < 1.07
    assert 0.95 < cfo_ratio < 1.07
    np.testing.assert_allclose(np.median(fit.snr), snr, rtol=0.05)


@pytest.mark.parametrize("client", [0, 24, 95, 96, 144, 191])
@pytest.mark.parametrize("fit_cfo", [True, False])
def test_a_start_that_is_off_by_a_sample_is_good_enough(client, fit_cfo):
    rng = np.random.default_rng(13)
    waveform = preamble.client_sequence(client, NUM)
    times = 60 + rng.uniform(0, 1, 200)
    x = received(waveform, times, np.zeros(200), 1000.0, rng, 600)
    fit = preamble.estimate_arrival(x, waveform, times + rng.uniform(-1, 1, 200), fit_cfo=fit_cfo)
    assert np.abs(fit.time_samples - times).max() < 0.01


@pytest.mark.parametrize("missing", [10, 160])
@pytest.mark.parametrize("end", ["head", "tail"])
def test_a_waveform_cut_by_the_record_is_fitted_by_what_is_there(missing, end):
    rng = np.random.default_rng(14)
    waveform, trials, snr = preamble.client_sequence(24, NUM), 500, 1000.0
    times = 100 + rng.uniform(0, 1, trials)
    x = received(waveform, times, np.zeros(trials), snr, rng, 600)
    if end == "head":
        x, times = x[:, 100 + missing :], times - 100 - missing
    else:
        x = x[:, : 100 + 320 - missing]
    fit = preamble.estimate_arrival(x, waveform, np.rint(times))
    # At least the bound of the part that is left; the cut blurs it a little.
    part = waveform[missing:] if end == "head" else waveform[:-missing]
    bound = np.sqrt(bounds.joint_crlb(part, snr * np.mean(np.abs(part) ** 2) / np.mean(np.abs(waveform) ** 2))[0])
    assert np.sqrt(np.mean((fit.time_samples - times) ** 2)) < 1.25 * bound
    assert np.median(fit.snr) == pytest.approx(snr, rel=0.1)
    assert np.median(np.abs(fit.amplitude)) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("cut", [slice(0, 1262), slice(0, 1200), slice(0, 1150), slice(1020, None), slice(1100, None)])
def test_a_trigger_cut_by_the_record_is_not_reported_elsewhere(cut):
    x = np.zeros(4000, np.complex64)
    x[1000:1280] = preamble.trigger()
    x += 0.05 * noise(4000, 1.0, np.random.default_rng(15)).astype(np.complex64)
    assert preamble.find_triggers(x[cut]) == []


def test_payload_is_no_trigger():
    """Two clients' votes are not white noise, and pass the gate more often; the fit rejects them."""
    rng = np.random.default_rng(16)
    for _ in range(8):
        votes = rng.choice(np.array([-1, 1], np.int8), (2, 96 * 3000))
        x = ofdm.modulate(fsk_mv.encode(votes, NUM, rng), NUM).sum(axis=0)
        assert preamble.find_triggers(x, threshold=0.29) == []


@pytest.mark.parametrize("name", WAVEFORMS)
def test_arrival_time_at_known_frequency_reaches_its_bound(name):
    rng = np.random.default_rng(7)
    waveform, trials, snr = WAVEFORMS[name], 2000, 10.0
    times, cfos = 60 + rng.uniform(0, 1, trials), rng.uniform(-0.1, 0.1, trials)
    x = received(waveform, times, cfos, snr, rng, len(waveform) + 200)
    fit = preamble.estimate_arrival(x, waveform, np.rint(times), cfos, fit_cfo=False)
    ratio = np.sqrt(np.mean((fit.time_samples - times) ** 2) / bounds.delay_crlb(waveform, snr))
    assert 0.95 < ratio < 1.07


def test_a_chirp_is_off_in_time_if_its_frequency_is_not_estimated():
    """Zadoff-Chu on subcarriers: a frequency offset moves the correlation's peak; the joint fit is not fooled."""
    rng = np.random.default_rng(8)
    waveform = preamble.client_sequence(0, NUM)
    times, cfos = np.full(50, 60.0), np.full(50, 0.01)
    x = received(waveform, times, cfos, 1e4, rng, 600)
    joint = preamble.estimate_arrival(x, waveform, 60.0)
    fixed = preamble.estimate_arrival(x, waveform, 60.0, fit_cfo=False)
    assert np.abs(joint.time_samples - 60).max() < 0.02
    assert np.abs(fixed.time_samples - 60).min() > 5 * np.abs(joint.time_samples - 60).max()


def test_client_sequences_are_told_apart():
    symbols = np.array([preamble.client_sequence(n, NUM) for n in range(20)])[:, 64:]
    grids = np.fft.fft(symbols, axis=1)
    for i in range(20):
        peaks = [np.abs(np.fft.ifft(grids[i] * grids[j].conj())).max() for j in range(20) if j != i]
        own = np.abs(np.fft.ifft(grids[i] * grids[i].conj())).max()
        assert max(peaks) < 0.25 * own


@pytest.mark.parametrize("clients", [1, 2, 5, 16])
def test_the_shared_slot_separates_clients_by_their_shifts(clients):
    rng = np.random.default_rng(9)
    slot = preamble.shared_slot(clients, NUM)
    gains = np.exp(2j * np.pi * rng.random(clients)).astype(np.complex64)
    delays = rng.integers(-1, 2, clients)
    x = sum(gain * np.roll(row, delay) for gain, row, delay in zip(gains, slot, delays, strict=True))
    responses = preamble.separate_clients(x, clients, NUM)
    window = 256 // clients
    assert responses.shape == (clients, window)
    np.testing.assert_array_equal(np.abs(responses).argmax(axis=-1) - window // 2, delays)


def shared_records(clients, delays, gains, snr, rng):
    """Slots in which each client is late by its own fraction, between payload that is not silent."""
    slot = preamble.shared_slot(clients, NUM)
    grids = ofdm.demodulate(slot, NUM)[:, 0]
    late = np.exp(-2j * np.pi * NUM.subcarrier_frequencies() * delays[..., None])
    grid = np.sum(gains[..., None] * grids * late, axis=-2)
    x = ofdm.modulate(grid[..., None, :].astype(np.complex64), NUM)
    return (x + noise(x.shape, 1 / snr, rng)).astype(np.complex64)


@pytest.mark.parametrize("clients", [1, 2, 8, 32, 50])
def test_shared_arrivals_are_exact_without_noise(clients):
    rng = np.random.default_rng(10)
    delays = rng.uniform(-0.7, 0.7, (20, clients))
    gains = np.exp(2j * np.pi * rng.random((20, clients))) * rng.uniform(0.5, 2, (20, clients))
    found = preamble.estimate_shared(shared_records(clients, delays, gains, 1e12, rng), clients, NUM)
    np.testing.assert_allclose(found.delay_samples, delays, atol=2e-3)
    np.testing.assert_allclose(found.amplitude, gains, atol=1e-2)


@pytest.mark.parametrize(("clients", "loss"), [(1, 1.1), (5, 1.3), (16, 2.0)])
def test_shared_arrivals_stay_near_the_bound_of_a_client_alone(clients, loss):
    """Alone, var = 1 / (2 E/N0 w2) with E/N0 = 192 snr and w2 the variance of the subcarriers' frequencies."""
    rng = np.random.default_rng(11)
    snr, trials = 100.0, 400
    delays = rng.uniform(-1, 1, (trials, clients))
    gains = np.exp(2j * np.pi * rng.random((trials, clients)))
    found = preamble.estimate_shared(shared_records(clients, delays, gains, snr, rng), clients, NUM)
    alone = 1 / (2 * 192 * snr * np.var(2 * np.pi * NUM.subcarrier_frequencies()))
    ratio = np.sqrt(np.mean((found.delay_samples - delays) ** 2) / alone)
    assert 0.9 < ratio < loss
    np.testing.assert_allclose(np.median(found.snr), snr, rtol=0.1)


def test_a_silent_client_does_not_disturb_the_others():
    rng = np.random.default_rng(12)
    delays, gains = rng.uniform(-1, 1, (50, 4)), np.ones((50, 4), complex)
    gains[:, 2] = 0
    found = preamble.estimate_shared(shared_records(4, delays, gains, 1000.0, rng), 4, NUM)
    others = [0, 1, 3]
    assert np.abs(found.delay_samples - delays)[:, others].max() < 0.02
    assert np.abs(found.amplitude[:, 2]).max() < 0.05
    assert np.isfinite(found.delay_samples).all()


def test_small_numerologies_have_a_shared_slot_too():
    small = Numerology(fft_size=32, cp_samples=8, active_subcarriers=20, dc_nulls=2)
    assert preamble.shared_slot(preamble.max_clients(small), small).shape == (6, 40)


def test_shared_slots_have_the_same_spectrum_and_a_cyclic_prefix():
    slot = preamble.shared_slot(8, NUM)
    np.testing.assert_allclose(slot[:, :64], slot[:, 256:], atol=1e-6)
    np.testing.assert_allclose(np.abs(ofdm.demodulate(slot, NUM)), 1, atol=1e-5)

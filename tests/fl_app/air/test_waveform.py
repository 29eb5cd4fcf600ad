# SPDX-License-Identifier: GPL-3.0-or-later
"""The waveform's air: exact where nothing disturbs it, and as the formulas say where something does."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from fl_app.air import AirSettings, expected_vote_error_rate, make_air, vote_error_rate
from fl_app.air.bursts import plan
from fl_app.air.simulation import threads
from fl_app.air.simulation.coherence import coherence_of
from fl_app.core.streams import stream
from oac_blocks.dsp.bounds import mv_error_probability
from tests.fl_app.air.entries import own_entries, relative_error
from tests.support.statistics import assert_mean, share_std
from tests.support.vote_theory import vote_rate_std

# ---------------------------------------------------------------------------------------------------------------
# Nothing but the waveform


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    k=st.integers(1, 1500),
    n_clients=st.integers(1, 4),
    repeats=st.integers(1, 4),
    groups=st.integers(1, 5),
    limit=st.integers(6, 20),
)
def test_undisturbed_votes_arrive_exactly(perfect, k, n_clients, repeats, groups, limit):
    perfect = {**perfect, "repeats": repeats, "groups": groups, "max_burst_symbols": limit}
    votes = own_entries(n_clients, k)
    uplink = make_air(AirSettings(**perfect), n_clients, 0).uplink(votes, np.arange(n_clients), 0)
    # One voter of unit energy: the soft vote is the vote itself.
    assert uplink.received == pytest.approx(votes.sum(axis=0), abs=1e-5)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    k=st.integers(1, 3000),
    n_clients=st.integers(1, 4),
    limit=st.integers(6, 20),
    inversion=st.sampled_from(["phase", "truncated"]),
)
def test_undisturbed_entries_arrive_exactly(perfect, k, n_clients, limit, inversion):
    g = np.random.default_rng(k).normal(0, 1e-3, (n_clients, k)).astype(np.float32)
    air = make_air(AirSettings(mode="analog", **perfect, max_burst_symbols=limit, inversion=inversion), n_clients, 0)
    received = air.uplink(g, np.arange(n_clients), 0).received
    assert received == pytest.approx(g.mean(axis=0), abs=1e-3 * float(np.abs(g).max()))
    assert relative_error(received, g) < 1e-5 * n_clients


def test_a_subset_of_the_clients_is_averaged_over_itself(perfect):
    g = np.random.default_rng(0).standard_normal((2, 500), np.float32)
    air = make_air(AirSettings(mode="analog", **perfect), 6, 0)
    assert relative_error(air.uplink(g, np.array([5, 2]), 0).received, g) < 1e-5


def test_unanimous_votes_win_however_the_carriers_stand(perfect):
    votes = np.broadcast_to(own_entries(1, 960), (2, 960)).copy()
    for t in range(20):
        uplink = make_air(AirSettings(**perfect), 2, 0).uplink(votes, np.arange(2), t)
        assert vote_error_rate(votes, uplink.received) == (0, 960)


def test_more_clients_than_cyclic_shifts(perfect):
    votes = own_entries(70, 960)
    uplink = make_air(AirSettings(**perfect), 70, 0).uplink(votes, np.arange(70), 0)
    assert vote_error_rate(votes, uplink.received) == (0, 960)


# ---------------------------------------------------------------------------------------------------------------
# Clocks and timing


def test_20_ppm_over_the_prototypes_1138_symbols(perfect):
    k = 1138 * 96
    votes = own_entries(2, k)
    air = make_air(AirSettings(**{**perfect, "clock_ppm": 20.0, "timing_sigma_samples": 0.5}), 2, 0)
    uplink = air.uplink(votes, np.arange(2), 0)
    assert uplink.symbols == 1138 + 4
    assert vote_error_rate(votes, uplink.received) == (0, k)
    assert uplink.received == pytest.approx(votes.sum(axis=0), abs=0.03)


@pytest.mark.parametrize(("ppm", "symbols"), [(20.0, 4092), (200.0, 500), (1000.0, 110)])
def test_clocks_stay_inside_the_prefix_up_to_the_longest_burst(perfect, ppm, symbols):
    votes = own_entries(2, symbols * 96)
    air = make_air(AirSettings(**{**perfect, "clock_ppm": ppm}), 2, 0)
    assert vote_error_rate(votes, air.uplink(votes, np.arange(2), 0).received)[0] == 0


def test_analog_follows_20_ppm_over_1138_symbols(perfect):
    g = np.random.default_rng(0).standard_normal((2, 1138 * 384), np.float32)
    air = make_air(AirSettings(mode="analog", **{**perfect, "clock_ppm": 20.0, "timing_sigma_samples": 0.5}), 2, 0)
    assert relative_error(air.uplink(g, np.arange(2), 0).received, g) < 3e-3  # the resampler's -55 dB


def test_timing_outside_the_prefix_hurts(perfect):
    votes = own_entries(2, 9600)

    def rate(sigma):
        air = make_air(AirSettings(**{**perfect, "timing_sigma_samples": sigma}), 2, 0)
        errors, compared = np.sum(
            [vote_error_rate(votes, air.uplink(votes, np.arange(2), t).received) for t in range(10)], axis=0
        )
        return errors / compared

    assert rate(5.0) == 0
    assert rate(200.0) > 0.05


def test_the_window_sees_whole_bursts_from_early_to_late(perfect):
    """Within the prefix delay costs nothing: from a third of it early to two thirds of it late."""
    votes = own_entries(1, 960)
    shifts = {-23: False, -21: True, 0: True, 43: True, 45: False}
    for shift, whole in shifts.items():
        air = make_air(AirSettings(**perfect), 1, 0)
        air.arrivals.offsets = lambda _t, shift=shift: np.array([float(shift)])
        received = air.uplink(votes, np.array([0]), 0).received
        assert (np.abs(received - votes[0]).max() < 1e-4) == whole, shift


def test_without_frequency_correction_20_ppm_at_2_4_ghz_break_the_votes(perfect):
    # 48 kHz are 0.6 of the subcarrier spacing.
    votes = own_entries(2, 9600)
    raw = make_air(AirSettings(**{**perfect, "clock_ppm": 20.0}, cfo_correction=False), 2, 0)
    assert vote_error_rate(votes, raw.uplink(votes, np.arange(2), 0).received)[0] > 960


@pytest.mark.parametrize("age_seconds", [0.0, 0.01])
def test_analog_loses_what_its_phase_turns_since_the_pilot(perfect, age_seconds):
    """A residual frequency f turns entries by 2 pi f t: the real part loses, and the pair's other entry leaks in."""
    g = np.ones((1, 384 * 100), np.float32)
    settings = {**perfect, "cfo_residual_hz": 10.0, "pilot_age_seconds": age_seconds}
    air = make_air(AirSettings(mode="analog", groups=1, **settings), 1, 0)
    received = air.uplink(g, np.array([0]), 0).received.reshape(100, 192, 2)
    value = received[..., 0] + 1j * received[..., 1]
    turn = np.unwrap(np.angle(value.mean(axis=1))) - np.pi / 4  # the pair (1, 1) is 1 + j
    cfo_hz = 10.0 * stream(0, "air oscillator", 0, 0, 0).standard_normal(2)[1]
    # The middle of a symbol's window: after the sync symbol, the prefix less 21 samples, and half the FFT.
    seconds = age_seconds + (320 * np.arange(1, 101) + 64 - 21 + 128) / 20e6
    # The middle of the pilot's windows is 11 samples after the middle of its symbols.
    assert turn == pytest.approx(2 * np.pi * cfo_hz * (seconds - 11 / 20e6), abs=2e-5)


# ---------------------------------------------------------------------------------------------------------------
# Symbol by symbol and sample by sample


@pytest.mark.parametrize(("mode", "profile"), [("onebit", "indoor"), ("analog", "indoor"), ("analog", "eva")])
def test_adding_up_by_symbols_hears_what_the_samples_say(mode, profile):
    """The same draws, the same noise: soft votes and entries differ by far less than the noise.

    The SNR comes from a median over the noise of the burst's symbols. What the two ways leave beside the band moves
    single energies, and with 50 symbols the median by 0.04 dB (RMS over seeds).
    """
    rng = np.random.default_rng(0)
    payload = rng.choice(np.array([-1, 1], np.int8), (6, 20_000))
    payload = payload if mode == "onebit" else payload.astype(np.float32)
    settings = AirSettings(mode=mode, profile=profile, snr_db=20.0)
    quick, slow = make_air(settings, 6, 0), make_air(settings, 6, 0)
    slow.by_symbols = False
    a, b = (air.uplink(payload, np.arange(6), 0) for air in (quick, slow))
    assert 0 < np.std(a.received - b.received) < 0.005 * np.std(b.received)
    assert a.snr_db == pytest.approx(b.snr_db, abs=0.1)
    assert a.pmepr_db == b.pmepr_db


@pytest.mark.parametrize("more", [{"snr_db": None}, {"snr_db": 60.0}, {"profile": "etu"}, {"calibration": "off"}])
def test_what_symbols_would_leave_out_goes_by_samples(more):
    votes = own_entries(2, 2000)
    quick, slow = (make_air(AirSettings(**more), 2, 0) for _ in range(2))
    slow.by_symbols = False
    np.testing.assert_array_equal(*(air.uplink(votes, np.arange(2), 0).received for air in (quick, slow)))


@pytest.mark.parametrize("profile", ["flat", "eva"])
def test_the_number_of_cores_changes_no_bit(profile, monkeypatch):
    votes = own_entries(7, 3000)

    def received(cores):
        monkeypatch.setattr(threads, "cores", lambda: cores)
        return make_air(AirSettings(profile=profile), 7, 0).uplink(votes, np.arange(7), 0).received

    np.testing.assert_array_equal(received(1), received(3))


# ---------------------------------------------------------------------------------------------------------------
# Fading and noise, against the closed forms


def clustered_rates(air, votes, rounds):
    """Error rates of the rounds: votes of one round share their channel, rounds do not."""
    counts = np.array([vote_error_rate(votes, air.uplink(votes, np.arange(len(votes)), t).received) for t in rounds])
    return counts[:, 0] / counts[:, 1]


@pytest.mark.parametrize(
    ("k_plus", "k_minus", "snr_db", "profile"),
    [(1, 0, 5.0, "flat"), (2, 0, 10.0, "flat"), (2, 1, 20.0, "flat"), (3, 1, 3.0, "indoor"), (2, 1, 10.0, "eva")],
)
def test_vote_errors_with_every_impairment_are_those_of_the_closed_form(k_plus, k_minus, snr_db, profile):
    """Each client stands on one tone only, so its one gain for both tones leaves the formula as it is."""
    n_clients = k_plus + k_minus
    votes = np.repeat(np.array([[1]] * k_plus + [[-1]] * k_minus, np.int8), 480, axis=1)
    air = make_air(AirSettings(snr_db=snr_db, profile=profile), n_clients, 21)
    expected = mv_error_probability(k_plus, k_minus, 10 ** (snr_db / 10))
    assert_mean(clustered_rates(air, votes, range(400)), expected, share_std(expected))


def test_waveform_and_fading_agree_on_mixed_votes():
    votes = np.random.default_rng(3).integers(-1, 2, (5, 960), np.int8)
    common = {"snr_db": 10.0, "profile": "eva"}
    wave = clustered_rates(make_air(AirSettings(name="waveform", **common), 5, 1), votes, range(150))
    formula = clustered_rates(make_air(AirSettings(name="fading", **common), 5, 1), votes, range(150))
    most = 2 * vote_rate_std(5, 960, 10.0)  # abstentions make rounds scatter more
    assert_mean(wave - formula, 0.0, np.sqrt(2) * most)
    assert_mean(formula, expected_vote_error_rate(votes, 10.0), most)


def test_repeats_help_where_the_channel_is_selective():
    votes = np.ones((1, 480), np.int8)
    rates = [
        clustered_rates(make_air(AirSettings(snr_db=5.0, profile="etu", repeats=r), 1, 1), votes, range(100)).mean()
        for r in (1, 2, 4)
    ]
    single, double, fourfold = (float(mv_error_probability(1, 0, 10**0.5, r)) for r in (1, 2, 4))
    assert rates[0] == pytest.approx(single, rel=0.15)
    # The copies fade nearly independently: close to the formula for independent ones, never below it by much.
    assert 0.8 * double < rates[1] < 1.8 * double
    assert 0.8 * fourfold < rates[2] < 4 * fourfold


def test_analog_fading_is_equation_7(perfect):
    """Flat Rayleigh fading through pilots: mean g, and over rounds the variance sum g_n^2 (4/pi - 1) / N^2."""
    g = np.array([[0.5], [-1.0], [2.0]], np.float32) * np.ones((1, 4), np.float32)
    air = make_air(AirSettings(mode="analog", **{**perfect, "fading": "rayleigh"}), 3, seed=1)
    rounds = np.array([air.uplink(g, np.arange(3), t).received for t in range(800)], np.float64)
    variance = np.sum(g[:, 0].astype(float) ** 2) * (4 / np.pi - 1) / 9
    assert np.all(np.abs(rounds.mean(axis=0) - g.mean()) < 3 * np.sqrt(variance / len(rounds)))
    assert rounds.var(axis=0) == pytest.approx(np.full(4, variance), rel=0.2)
    assert np.ptp(rounds, axis=1).max() < 1e-5  # one gain for all entries


def test_a_noisy_pilot_costs_the_mean_cosine_of_its_phase_error(perfect):
    """h + e with e of variance s2: E cos is sqrt(pi y)/2 e^{-y/2} (I0(y/2) + I1(y/2)), y = 1/s2."""
    snr = 10**0.3
    g = np.ones((1, 384), np.float32)
    settings = {**perfect, "snr_db": 3.0, "pilot_snr_db": 3.0, "pilot_symbols": 1}
    air = make_air(AirSettings(mode="analog", **settings), 1, 0)
    rounds = np.array([air.uplink(g, np.array([0]), t).received.mean() for t in range(150)])
    cosine = np.sqrt(np.pi * snr) / 2 * (special.i0e(snr / 2) + special.i1e(snr / 2))
    assert air.mean_gain == pytest.approx(cosine, rel=1e-6)
    # 192 subcarriers with a cosine each, and the noise of 384 entries; the server has divided by the mean cosine.
    assert_mean(rounds * cosine, cosine, np.sqrt((1 - cosine**2) / 192 + 1 / (2 * snr * 384)))


@pytest.mark.parametrize("noise_std", [0.02, 0.2, 1.0])
@pytest.mark.parametrize(
    "channel", [{}, {"fading": "rician", "profile": "epa", "sample_rate_hz": 2.5e6}, {"inversion": "truncated"}]
)
def test_analog_is_unbiased_at_any_noise(channel, noise_std):
    """Received gain on the true mean, N = 10, RMS 0.1, all default impairments.

    While the pilot had the server's noise, and the mean gain did not know, it was 0.99, 0.74 and 0.22.
    """
    clients, rounds = 10, 60
    g = np.random.default_rng(2).normal(0, 0.1, 1920).astype(np.float32)
    settings = AirSettings(mode="analog", noise_std=noise_std, **channel)
    air = make_air(settings, clients, 4)
    received = np.array([air.uplink(np.tile(g, (clients, 1)), np.arange(clients), t).received for t in range(rounds)])
    # |h|^2 has the mean 1, and 1 / |h|^2 sent is 1 at the server: no gain has a mean square above 1.
    burst = plan(g.size, settings)[0].layout
    left = air.mean_gain * coherence_of(burst, settings).noise_gain
    power = float(g @ g)
    most = np.sqrt((1 / left**2 - 1) / clients + (noise_std / clients) ** 2 / power)
    assert_mean(received @ g / power, 1.0, most)


def test_xi_has_the_noise_std_that_is_set_with_all_impairments():
    """Formula and waveform mean the same: what phase errors take from the signal is not taken from the noise."""
    zero, clients = np.zeros((4, 19_200), np.float32), np.arange(4)
    for name in ("fading", "waveform"):
        received = (
            make_air(AirSettings(name=name, mode="analog", noise_std=1.0), 4, 5).uplink(zero, clients, 0).received
        )
        assert np.std(received) * 4 == pytest.approx(1.0, rel=3 / np.sqrt(2 * 19_200))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"cfo_residual_hz": 100.0}, "residual frequency offset of 100 Hz: the clients' phases are random"),
        ({"pilot_timing_sigma_samples": 3.0}, "pilot_timing_sigma_samples = 3: the clients' phases are random"),
    ],
)
def test_phases_that_are_random_are_warned_of(settings, fault, caplog):
    make_air(AirSettings(mode="analog"), 2, 0)
    assert not caplog.text
    air = make_air(AirSettings(mode="analog", **settings), 2, 0)
    assert fault in caplog.text
    received = air.uplink(np.ones((2, 500), np.float32), np.arange(2), 0).received
    assert np.abs(received).max() < 1e4  # nothing is divided by next to nothing


def test_timing_that_the_pilot_does_not_show_costs_most_at_the_bands_edge(perfect):
    """A delay of variance s2 between pilot and burst leaves E cos(2 pi f delay) = e^{-(2 pi f)^2 s2 / 2}."""
    g = np.ones((1, 384), np.float32)
    air = make_air(AirSettings(mode="analog", **{**perfect, "pilot_timing_sigma_samples": 0.3}), 1, 0)
    rounds = np.array([air.uplink(g, np.array([0]), t).received.reshape(192, 2).mean(axis=1) for t in range(300)])
    frequency = np.r_[-100:-4, 4:100] / 256
    expected = np.exp(-((2 * np.pi * frequency * 0.3) ** 2) / 2)
    rounds *= expected  # the server has divided each subcarrier by its own loss
    standard_error = np.minimum(rounds.std(axis=0), np.sqrt(1 - expected**2)) / np.sqrt(len(rounds))
    # The mean over the pair 1 + j, turned, is the cosine. All subcarriers see the same delays: a few will do.
    few = slice(0, 192, 24)
    assert np.all(np.abs(rounds.mean(axis=0) - expected)[few] < 3 * standard_error[few] + 1e-3)


def test_truncated_inversion_leaves_an_entry_or_nothing(perfect):
    g = np.ones((1, 8), np.float32)
    least = 0.5
    settings = {**perfect, "fading": "rayleigh", "inversion": "truncated", "least_magnitude": least}
    air = make_air(AirSettings(mode="analog", **settings), 1, seed=1)
    rounds = np.array([air.uplink(g, np.array([0]), t).received[0] for t in range(500)])
    sent = np.exp(-(least**2))  # probability that |h| >= least
    assert np.all((np.abs(rounds) < 1e-5) | (np.abs(rounds * sent - 1) < 1e-3))
    assert np.mean(rounds > 0.5) == pytest.approx(sent, abs=3 * np.sqrt(sent * (1 - sent) / 500))


@pytest.mark.parametrize("noise", [{"noise_std": 1.0}, {"snr_db": 10.0}])
def test_analog_noise_is_the_formulas(perfect, noise):
    g = np.random.default_rng(0).normal(0, 0.2, (4, 40_000)).astype(np.float32)
    rms = np.sqrt(np.mean(g.astype(float) ** 2))
    expected = (1.0 if "noise_std" in noise else rms / np.sqrt(10)) / 4
    settings = {**perfect, **noise, "pilot_symbols": 1024}  # the pilot's own noise is another test
    error = make_air(AirSettings(mode="analog", **settings), 4, 0).uplink(g, np.arange(4), 0).received - g.mean(0)
    assert error.std() == pytest.approx(expected, rel=0.02)


def test_heavy_tailed_noise_has_the_same_scale_on_entries_as_in_the_formula(perfect):
    # 256 samples gather on a subcarrier; entries of a symbol share its impulses, so the symbols are what is counted.
    g = np.full((1, 384 * 2000), 1e-3, np.float32)
    settings = {**perfect, "noise_std": 1.0, "noise_alpha": 1.5, "pilot_symbols": 1024, "groups": 1}
    air = make_air(AirSettings(mode="analog", **settings), 1, 0)
    noise = (air.uplink(g, np.array([0]), 0).received - g[0]).reshape(2000, 384)
    for share in (0.75, 0.95):
        expected = stats.levy_stable.ppf(share, 1.5, 0, scale=1 / np.sqrt(2))
        below = (noise < expected).mean(axis=1)
        assert_mean(below, share, share_std(share), 4)


def test_clipping_and_limiting_help_in_heavy_tailed_noise():
    g = np.random.default_rng(0).standard_normal((4, 9600), np.float32)

    def error(**more):
        common = {"mode": "analog", "snr_db": 10.0, "noise_alpha": 1.2, "adc_bits": None, "fading": "none"}
        air = make_air(AirSettings(**common, **more), 4, 0)
        return np.mean((air.uplink(g, np.arange(4), 0).received - g.mean(axis=0)) ** 2)

    bare = error()
    clipped, limited = error(clip_level=5.0), error(limiter_level=3.0)
    assert clipped < 0.6 * bare
    assert (
        limited < 0.2 * clipped
    )  # samples are where impulses are few and large; the FFT spreads them over all entries


def test_limiting_saves_votes_from_heavy_tailed_noise():
    votes = np.ones((2, 9600), np.int8)

    def errors(**more):
        air = make_air(AirSettings(snr_db=10.0, noise_alpha=1.2, adc_bits=None, **more), 2, 0)
        return sum(vote_error_rate(votes, air.uplink(votes, np.arange(2), t).received)[0] for t in range(5))

    assert errors(limiter_level=3.0) < 0.6 * errors()


def test_nothing_is_infinite_in_the_heaviest_tails():
    for mode in ("onebit", "analog"):
        payload = np.ones((2, 2000), np.int8 if mode == "onebit" else np.float32)
        air = make_air(AirSettings(mode=mode, noise_alpha=0.5, snr_db=0.0, adc_bits=None), 2, 0)
        assert np.isfinite(air.uplink(payload, np.arange(2), 0).received).all()

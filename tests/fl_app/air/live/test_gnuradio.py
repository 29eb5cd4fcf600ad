# SPDX-License-Identifier: GPL-3.0-or-later
"""The air that is a GNU Radio flowgraph in a process of its own."""

import gc
import os
import signal

import numpy as np
import pytest

from fl_app.air import AirSettings, expected_vote_error_rate, make_air, vote_error_rate
from fl_app.air.live.gnuradio import GnuradioAir
from fl_app.air.live.gnuradio_process import FlowgraphError
from tests.support.processes import assert_all_end, children_of
from tests.support.statistics import assert_mean
from tests.support.vote_theory import vote_rate_std


def settings(**changes):
    return AirSettings(**{"name": "gnuradio", "mode": "onebit", "snr_db": 10.0, "profile": "eva", **changes})


def fair_votes(rng, clients, k):
    return rng.choice(np.array([-1, 1], np.int8), (clients, k))


@pytest.fixture
def air():
    made = GnuradioAir(settings(), 2, seed=3)
    yield made
    made.close()


def test_votes_come_through_as_the_closed_form_says(air):
    """Rounds of any length, longer than a burst as well; rounds scatter by their fading."""
    rng = np.random.default_rng(1)
    rates, expected, snrs_db = [], [], []
    for t, k in enumerate([50_000, *[4000] * 24]):
        votes = fair_votes(rng, 2, k)
        uplink = air.uplink(votes, np.arange(2), t)
        assert uplink.received.shape == (k,)
        assert uplink.received.dtype == np.float32
        errors, compared = vote_error_rate(votes, uplink.received)
        rates.append(errors / compared)
        expected.append(expected_vote_error_rate(votes, 10.0))
        snrs_db.append(uplink.snr_db)
    assert uplink.symbols == -(-4000 // 96) + 4
    assert uplink.air_seconds == pytest.approx(uplink.symbols * 320 / 20e6)
    # Two clients' fading over 24 rounds of some ten echoes each: the mean power is known to 0.3 dB.
    assert 10 * np.log10(np.mean(10 ** (np.array(snrs_db) / 10))) == pytest.approx(10.0, abs=1.2)
    assert_mean(np.array(rates[1:]) - np.array(expected[1:]), 0.0, 1.2 * vote_rate_std(2, 4000, 10.0))


def test_a_64_point_fft_shows_its_snr():
    """Without fading the SNR is that of the settings; what the loop leaves of the offsets costs little."""
    form = {"fft_size": 64, "cp_samples": 16, "active_subcarriers": 48, "dc_nulls": 4}
    made = GnuradioAir(settings(profile="flat", fading="none", clock_ppm=2.0, **form), 2, seed=3)
    try:
        votes = fair_votes(np.random.default_rng(2), 2, 2000)
        measured = [made.uplink(votes, np.arange(2), t).snr_db for t in range(4)]
    finally:
        made.close()
    assert np.mean(measured) == pytest.approx(10.0, abs=1.0)


def test_who_does_not_take_part_abstains(air):
    """The other client's votes stand alone, so the sign is its own wherever the noise lets it."""
    votes = fair_votes(np.random.default_rng(2), 1, 2000)
    uplink = air.uplink(votes, np.array([1]), 0)
    errors, compared = vote_error_rate(votes, uplink.received)
    assert compared == 2000
    assert errors / compared < 0.3


def test_the_same_seed_gives_the_same_soft_votes():
    votes = fair_votes(np.random.default_rng(3), 2, 1000)
    received = []
    for _ in range(2):
        air = make_air(settings(), 2, 5)
        received.append([air.uplink(votes, np.arange(2), t).received for t in range(2)])
        air.close()
    assert np.array_equal(received[0], received[1])


def test_a_flowgraph_that_is_killed_is_reported(air):
    votes = fair_votes(np.random.default_rng(4), 2, 500)
    air.uplink(votes, np.arange(2), 0)
    os.kill(air.process_id, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="the flowgraph ended"):
        _go_on(air, votes)


def _go_on(air, votes):
    for t in range(1, 4):  # what was under way may still arrive
        air.uplink(votes, np.arange(2), t)


def test_nothing_is_left_behind():
    air = GnuradioAir(settings(), 2, seed=1)
    air.uplink(fair_votes(np.random.default_rng(5), 2, 100), np.arange(2), 0)
    process_id = air.process_id
    del air
    gc.collect()
    assert_all_end([process_id])


def test_a_flowgraph_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="n_clients must be"):
        make_air(settings(), 64, 1)


# Analog mode. What calibration leaves is not in the flowgraph; for the waveform it is taken out to compare the two.
IN_TIME = {
    "clock_walk_ppm": 0.0,
    "cfo_residual_hz": 0.0,
    "pilot_snr_db": None,
    "timing_sigma_samples": 0.0,
    "pilot_timing_sigma_samples": 0.0,
}


def analog_settings(**changes):
    unfaded = {"fading": "none", "clock_ppm": 0.0, "snr_db": None, "adc_bits": None, **IN_TIME}
    return AirSettings(**{"name": "gnuradio", "mode": "analog", **unfaded, **changes})


def analog_air(n_clients, seed=3, **changes):
    return make_air(analog_settings(**changes), n_clients, seed)


def entries_of(rng, clients, k):
    return rng.standard_normal((clients, k)).astype(np.float32)


def test_without_noise_the_mean_of_those_who_take_part_is_exact():
    """Payloads of any length, of several bursts as well; symbols and air time are the waveform's."""
    rng, burst_symbols = np.random.default_rng(6), 12
    with analog_air(3, max_burst_symbols=burst_symbols) as air:
        for t, (clients, k) in enumerate([([0, 1, 2], 10_000), ([2, 0], 700), ([1], 1)]):
            entries = 1e-3 * entries_of(rng, len(clients), k)
            uplink = air.uplink(entries, np.array(clients), t)
            assert uplink.received.dtype == np.float32
            np.testing.assert_allclose(uplink.received, entries.mean(axis=0), atol=1e-5 * 1e-3)
            bursts = -(-k // ((burst_symbols - 4) * 384))  # of the symbols 4 are for synchronisation
            payload_symbols = -(-k // (bursts * 384))  # all bursts here are equal
            assert uplink.symbols == bursts * (payload_symbols + min(4, payload_symbols))
            assert uplink.air_seconds == pytest.approx(uplink.symbols * 320 / 20e6)
            waveform = make_air(analog_settings(name="waveform", max_burst_symbols=burst_symbols), 3, 1)
            assert waveform.uplink(entries, np.array(clients), t).symbols == uplink.symbols
            assert uplink.snr_db is None


@pytest.mark.parametrize("noise", [{"snr_db": 20.0}, {"noise_std": 0.4}])
def test_error_of_the_mean_is_that_of_the_waveform_and_of_the_closed_form(noise):
    """xi has the standard deviation noise_std, or RMS / sqrt(snr), and the mean of N clients has xi / N.

    The pilot of P symbols adds a phase error of variance (noise of a subcarrier) / 2P, and so the same share of each
    client's power.
    """
    clients, k, rms, rounds, pilot_symbols = 4, 3000, 3.0, 16, 8
    xi_std = noise.get("noise_std", rms / 10)
    subcarrier_noise = (xi_std / rms) ** 2
    expected = (xi_std / clients) ** 2 + subcarrier_noise / (2 * pilot_symbols) * rms**2 / clients
    errors = {}
    for name in ("gnuradio", "waveform"):
        rng = np.random.default_rng(7)
        pilot = {"pilot_symbols": pilot_symbols, "pilot_snr_db": -10 * np.log10(subcarrier_noise)}
        with make_air(analog_settings(name=name, **pilot, **noise), clients, 3) as air:
            errors[name] = np.empty(rounds)
            for t in range(rounds):
                entries = rms * entries_of(rng, clients, k)
                received = air.uplink(entries, np.arange(clients), t).received
                errors[name][t] = np.mean((received - entries.mean(axis=0)) ** 2)
    through_flowgraph, waveform = errors["gnuradio"], errors["waveform"]
    # The errors of 192 subcarriers are independent, each of a variance known to a relative sqrt(2).
    most = expected * np.sqrt(2 / 192)
    assert_mean(through_flowgraph, expected, most)
    assert_mean(through_flowgraph - waveform, 0.0, np.sqrt(2) * most)


def test_fading_costs_what_it_costs_in_the_waveform():
    """Echoes, a converter, entries cut at a multiple of their median; truncated inversion."""
    clients, rounds = 4, 24
    channel = {"fading": "rayleigh", "profile": "epa", "inversion": "truncated", "adc_bits": 8, "clip_level": 5.0}
    errors = {}
    for name in ("gnuradio", "waveform"):
        rng = np.random.default_rng(8)
        with make_air(analog_settings(name=name, snr_db=20.0, **channel), clients, 4) as air:
            entries = [entries_of(rng, clients, 2000) for _ in range(rounds)]
            received = [air.uplink(one, np.arange(clients), t).received for t, one in enumerate(entries)]
        errors[name] = np.mean((np.array(received) - np.mean(entries, axis=1)) ** 2, axis=1)
        assert all(np.abs(one).max() <= 5.001 * np.median(np.abs(one)) for one in received)
    # Both draw their own fading, and by the waveform's scatter that of the flowgraph is judged.
    assert_mean(errors["gnuradio"] - errors["waveform"], 0.0, np.sqrt(2) * 1.2 * errors["waveform"].std(ddof=1))


def test_the_same_seed_gives_the_same_entries():
    entries = entries_of(np.random.default_rng(9), 2, 1000)
    received = []
    for _ in range(2):
        with analog_air(2, seed=5, fading="rayleigh", profile="eva", snr_db=10.0, adc_bits=12) as air:
            received.append([air.uplink(entries, np.arange(2), t).received for t in range(3)])
    assert np.array_equal(received[0], received[1])
    assert not np.array_equal(received[0][0], received[0][1])


def test_a_flowgraph_that_logs_before_it_is_ready_starts_all_the_same(tmp_path, monkeypatch, capfd):
    """GNU Radio logs to standard output that it cannot read FFT wisdom, which another program may be writing."""
    (tmp_path / ".gr_fftw_wisdom").write_text("half a")
    monkeypatch.setenv("HOME", str(tmp_path))
    with analog_air(1) as air:
        air.uplink(np.ones((1, 8), np.float32), np.arange(1), 0)
    assert "can't import wisdom" in capfd.readouterr().err


def test_an_analog_flowgraph_that_is_killed_is_reported():
    entries = entries_of(np.random.default_rng(10), 2, 100)
    with analog_air(2) as air:
        air.uplink(entries, np.arange(2), 0)
        os.kill(air.process_id, signal.SIGKILL)
        with pytest.raises(FlowgraphError, match=r"the flowgraph ended .*; a resumed run starts a new one"):
            air.uplink(entries, np.arange(2), 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clock_ppm": 20.0}, "clock_ppm must be 0 for the air 'gnuradio' in analog mode"),
        ({"inversion": "truncated", "least_magnitude": 2.0}, "least_magnitude must be small enough"),
    ],
)
def test_analog_settings_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_air(analog_settings(**wrong), 2, 1)


def test_an_air_has_one_flowgraph_while_it_is_open():
    votes, before = np.ones((2, 100), np.int8), set(children_of(os.getpid()))
    with make_air(settings(), 2, 1) as air:
        assert {air.process_id} == set(children_of(os.getpid())) - before
        air.open()
        air.uplink(votes, np.arange(2), 0)
        assert {air.process_id} == set(children_of(os.getpid())) - before
    assert set(children_of(os.getpid())) <= before

# SPDX-License-Identifier: GPL-3.0-or-later
"""Mean and variance of the energy scheme through a flowgraph and through virtual radios: the closed forms.

Radios measure the unit of energy in the sync symbols of the same burst. All entries of a client are equal here, so
that the entries of a burst are independent draws of one estimate.
"""

import numpy as np
import pytest

from fl_app.air import AirSettings, make_air
from fl_app.config import check
from oac_blocks.dsp.bounds import energy_variance
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.dsp.waveform.schemes.energies import PEAK_ENERGY
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos

K = 5000


def payload_of(values, k=K):
    return np.tile(np.float32(values)[:, None], k)


def steady_variance(values, snr_db, repeats):
    """Return the variance of the mean entry where channels do not fade: all of their power is steady."""
    values = np.asarray(values)
    plus, minus = np.maximum(values, 0).sum(), np.maximum(-values, 0).sum()
    scale = scheme_named("energy").common_scale(np.abs(values), np.abs(values))
    noise = 10 ** (-snr_db / 10) / scale  # in units of an entry's energy
    sum_variance = energy_variance(plus, minus, noise, repeats, steady_squares=float(np.sum(values**2)))
    return sum_variance / len(values) ** 2


def assert_closed_form(received, mean, variance, most_error=0.05):
    off = np.asarray(received, np.float64) - mean
    n = len(off)
    assert abs(off.mean()) < 3 * np.sqrt(variance / n)
    standard_error = np.std(off**2) / np.sqrt(n)
    assert standard_error < most_error * variance
    assert abs(np.mean(off**2) - variance) < 3 * standard_error


@pytest.mark.parametrize(
    ("values", "snr_db", "repeats"),
    [
        ([1.0], 20.0, 1),
        ([1.0, -0.5], 10.0, 1),
        ([0.05, 0.2, -0.1], 20.0, 2),
        ([3.0, 1.0, 0.0, 2.0, -1.0], 10.0, 1),
    ],
)
def test_through_a_flowgraph(values, snr_db, repeats):
    pytest.importorskip("gnuradio")
    how = {"snr_db": snr_db, "fading": "none", "profile": "flat", "repeats": repeats}
    settings = AirSettings(name="gnuradio", mode="energy", **how)
    with make_air(settings, len(values), 1) as air:
        uplink = air.uplink(payload_of(values), np.arange(len(values)), 0)
    assert uplink.heard.tolist() == list(range(len(values)))
    assert_closed_form(uplink.received, np.mean(values), steady_variance(values, snr_db, repeats))


def test_through_a_flowgraph_in_rayleigh_fading():
    """The unit takes a fade of all clients away, so that the variance is a little below that of ``energy_variance``.

    In units of the mean power of N clients, their powers w are N times a flat Dirichlet variable: E w_n = 1,
    E w_n^2 = 2 N / (N + 1) and E w_n w_m = N / (N + 1). With V = S+^2 + S-^2 without noise, the variance is
    (N V - (S+ - S-)^2) / (N + 1), of which the part that all entries of a burst share is
    (N (S^2 + sum of s^2) - (N + 1) S^2) / (N + 1), with S = S+ - S-.
    """
    pytest.importorskip("gnuradio")
    values, k, rounds = np.array([0.3, 0.6, -0.15]), 960, 200
    n, total, squares = len(values), values.sum(), float(np.sum(values**2))
    settings = AirSettings(name="gnuradio", mode="energy", snr_db=30.0, fading="rayleigh", profile="flat")
    received = np.empty((rounds, k))
    with make_air(settings, n, 1) as air:
        for t in range(rounds):
            uplink = air.uplink(payload_of(values, k), np.arange(n), t)
            assert uplink.heard.size == n
            received[t] = uplink.received * n
    one_look = energy_variance(np.maximum(values, 0).sum(), np.maximum(-values, 0).sum(), 0.0)
    variance = (n * one_look - total**2) / (n + 1)
    shared = (n * (total**2 + squares) - (n + 1) * total**2) / (n + 1)
    off = received - total
    assert abs(off.mean()) < 3 * np.sqrt((shared + variance / k) / rounds)
    by_round = np.mean(off**2, axis=1)
    standard_error = by_round.std() / np.sqrt(rounds)
    assert standard_error < 0.15 * variance
    assert abs(by_round.mean() - variance) < 3 * standard_error


def test_through_virtual_radios():
    """Points at which clients share a tone: their products outweigh the noise, of which the radio tells no truth."""
    pytest.importorskip("oac_blocks.radio.pluto")
    n, repeats = 4, 2
    with VirtualPlutos(spread(n + 1, 1, ppm=20, snr_db=26), lock_step=True) as served:
        radios = {"server": served.uris[0], "clients": served.uris[1:], "frequency_hz": 2.4e9, "clock": "lock-step"}
        radios |= {"rx_gain_db": 50.0, "tx_gain_db": -10.0}
        tree = {"air": {"name": "pluto", "scheme": "energy", "repeats": repeats}, "clients": {"n": n}, "radios": radios}
        settings = check(tree, "test")
        with make_air(settings.air, n, 1, settings.radios) as air:
            for values in ([0.1, 0.1, 0.1, 0.1], [3.0, 1.0, 2.0, -1.5], [0.02, 0.01, 0.0, 0.02]):
                uplink = air.uplink(payload_of(values), np.arange(n), 0)
                assert uplink.heard.tolist() == list(range(n))
                assert_closed_form(uplink.received, np.mean(values), steady_variance(values, uplink.snr_db, repeats))
            # Half of the clients: the mean is theirs.
            uplink = air.uplink(payload_of([1.0, -3.0]), np.array([1, 3]), 1)
            assert uplink.heard.tolist() == [1, 3]
            assert uplink.received.mean() == pytest.approx(-1.0, abs=0.1)


@pytest.mark.parametrize("name", ["fading", "waveform", "gnuradio"])
def test_what_one_client_can_do_is_bounded(name):
    """The scale is the median's, and an entry has no more energy than the peak, however large it is."""
    if name == "gnuradio":
        pytest.importorskip("gnuradio")
    settings = AirSettings(name=name, mode="energy", snr_db=30.0, fading="none", profile="flat")
    with make_air(settings, 3, 1) as air:
        received = air.uplink(payload_of([1000.0, 1e-3, 1e-3]), np.arange(3), 0).received
    sent = np.array([PEAK_ENERGY, 1.0, 1.0]) * 1e-3
    variance = energy_variance(sent.sum(), 0.0, 1e-6, steady_squares=float(np.sum(sent**2)))
    assert_closed_form(received, sent.mean(), variance / 9)

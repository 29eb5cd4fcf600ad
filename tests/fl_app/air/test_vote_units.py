# SPDX-License-Identifier: GPL-3.0-or-later
"""A soft vote has one unit on all airs: the mean energy of one client's subcarrier.

N clients that agree send N subcarriers of energy 1 at random phases, so the energy for the vote is N in the mean, plus
the noise that the energy against it holds as well: the soft vote is N in the mean. The energy scheme's entries are in
the same unit, before the common scale and the number of clients are divided out: all airs deliver the mean entry.
"""

import dataclasses

import numpy as np
import pytest

from fl_app.air import AirSettings, make_air
from fl_app.config import check
from oac_blocks.dsp.receive.server_stream import HeardRound
from oac_blocks.dsp.receive.vote_units import energies_per_voter, voter_energy, voters_heard
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos

N, K = 3, 2000
# |sum of N phasors|^2 has the variance N (N - 1): 0.055 for the mean of 2,000. The levels of the radios' clients and
# the measured unit are within a few percent.
TOLERANCE = 0.1 * N


def unanimous(seed=1):
    return np.tile(np.random.default_rng(seed).choice(np.array([-1, 1], np.int8), K), (N, 1))


def level(air, participants=N):
    """Mean soft vote in the direction of the votes."""
    votes = unanimous()[:participants]
    with air:
        uplink = air.uplink(votes, np.arange(participants), 1)
    assert uplink.heard.tolist() == list(range(participants))
    return float(np.mean(uplink.received * votes[0]))


def assert_mean_entry(air, participants=N):
    """Entries whose magnitudes differ between the clients, and whose signs differ between the entries."""
    entries = unanimous()[:participants] * np.float32([[0.03], [0.01], [0.02]])[:participants]
    with air:
        uplink = air.uplink(entries, np.arange(participants), 1)
    assert uplink.heard.tolist() == list(range(participants))
    mean = float(np.abs(entries).mean())
    assert np.mean(uplink.received * np.sign(entries[0])) == pytest.approx(mean, rel=TOLERANCE / N)


@pytest.mark.parametrize("participants", [1, N])
@pytest.mark.parametrize("name", ["ideal", "fading", "waveform", "gnuradio"])
def test_level_of_airs_without_radios(name, participants):
    if name == "gnuradio":
        pytest.importorskip("gnuradio")
    settings = AirSettings(name=name, mode="onebit", snr_db=20.0, fading="none", profile="flat")
    assert level(make_air(settings, N, 1), participants) == pytest.approx(participants, abs=TOLERANCE)
    assert_mean_entry(make_air(settings.with_values(mode="energy"), N, 1), participants)


@pytest.mark.parametrize("participants", [1, N])
def test_level_of_radios(participants):
    pytest.importorskip("oac_blocks.radio.pluto")
    with VirtualPlutos(spread(N + 1, 1, ppm=20, snr_db=26), lock_step=True) as served:
        radios = {
            "server": served.uris[0],
            "clients": served.uris[1:],
            "frequency_hz": 2.4e9,
            "rx_gain_db": 50.0,
            "tx_gain_db": -10.0,
            "clock": "lock-step",
        }
        settings = check({"air": {"name": "pluto"}, "clients": {"n": N}, "radios": radios}, "test")
        air = make_air(settings.air, N, 1, settings.radios)
        assert level(air, participants) == pytest.approx(participants, abs=TOLERANCE)
        assert_mean_entry(make_air(settings.air.with_values(mode="energy"), N, 1, settings.radios), participants)


def heard_round(powers, sync_energy):
    """A round in which clients of these powers were heard (NaN: not heard); each of 10 votes has energy 6 for it."""
    power_db = 10 * np.log10(np.array(powers))
    columns = [np.where(np.isfinite(power_db), 0.0, np.nan)] * 2 + [power_db] + [power_db] * 3
    energies = np.array([[6.0] * 10, [0.0] * 10], np.float32)
    return HeardRound(0, "payload", 0.0, 20.0, *columns, energies[0], energies, 20.0, sync_energy)


@pytest.mark.parametrize(
    ("powers", "sync_energy", "voting", "unit"),
    [
        ([2.0, 2.0], 4.0, None, 2.0),
        ([2.0, 2.0], 4.0, (0, 1), 2.0),
        ([1.5, 1.5], 4.0, (0, 1), 2.0),  # a quarter of the energy comes by echoes
        ([1.0, 3.0], 4.0, (1,), 3.0),  # client 0 has no votes: it sends sync symbols alone
        ([2.0, 0.02], 2.0, (0,), 2.0),  # noise is taken for client 1, and hardly counts
        ([2.0, np.nan], 2.0, (0, 1), 2.0),
        ([2.0, 2.0], np.nan, None, 2.0),  # the noise cannot be seen beside a wide band
        ([np.nan, np.nan], np.nan, (0, 1), 1.0),
        ([2.0, np.nan], 2.0, (1,), 1.0),
    ],
)
def test_unit(powers, sync_energy, voting, unit):
    heard = heard_round(powers, sync_energy)
    assert voter_energy(heard, voting) == pytest.approx(unit, rel=0.02)
    assert np.allclose(energies_per_voter(heard, voting)[0], 6 / unit, rtol=0.02)
    here = np.flatnonzero(np.isfinite(powers)).tolist()
    assert voters_heard(heard, voting) == tuple(n for n in here if voting is None or n in voting)


def test_a_round_without_votes_has_no_energies():
    acquired = dataclasses.replace(heard_round([1.0], 1.0), kind="acquire", energies=None)
    with pytest.raises(ValueError, match="a round must carry votes, got round 0 of kind 'acquire'"):
        energies_per_voter(acquired)

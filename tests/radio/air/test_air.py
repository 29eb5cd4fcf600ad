# SPDX-License-Identifier: GPL-3.0-or-later
"""The air between radios against closed forms, without sockets: echoes, delays, fading, noise."""

import numpy as np
import pytest

from oac_blocks.dsp.channel.crystal import CrystalSettings
from oac_blocks.dsp.channel.fading import PROFILES
from oac_blocks.dsp.channel.resampling import HOP
from oac_blocks.radio.virtual.air.air_settings import VirtualAirSettings
from oac_blocks.radio.virtual.air.echoes import Echoes
from oac_blocks.radio.virtual.air.shared_air import SharedAir

RATE = 20_000_000
BLOCK = 4096
STEP = 1 / 2048  # of the receiver


def hear(samples, receiver=1, sender=0, blocks=6, radios=3, tx_gain_db=-10, rate=RATE, **air):
    """What one radio hears of another's cyclic buffer, full scale is 1."""
    one = SharedAir(VirtualAirSettings((CrystalSettings(),) * radios, **air), lock_step=True, expected=0)
    for radio in range(radios):
        with one.lock:
            setup = one.context(radio).settings
            setup.sample_rate_hz, setup.rx_lo_hz, setup.tx_lo_hz = rate, 2_400_000_000, 2_400_000_000
            setup.rx_bandwidth_hz = setup.tx_bandwidth_hz = 40_000_000
            setup.gain_mode, setup.rx_gain_db, setup.tx_gain_db = "manual", 50, tx_gain_db
            one.context(radio).changed()
    buffer = one.open_tx(sender, len(samples), cyclic=True)
    one.push_tx(sender, buffer, samples.astype(np.complex64), lambda: False)
    queue = one.open_rx(receiver, BLOCK, 3)
    heard = []
    while len(heard) < blocks:
        one.step()
        while (words := queue.pop()) is not None:
            heard.append(words)
            queue.release()
    return np.concatenate(heard[:blocks]) @ [STEP, 1j * STEP]


def noise(seed=1):
    rng = np.random.default_rng(seed)
    return (rng.integers(-300, 300, BLOCK) + 1j * rng.integers(-300, 300, BLOCK)) * STEP


def in_band(shape, spectrum):
    """Periodic noise with this spectrum where there is a signal, 80 % of the band."""
    f = np.fft.fftfreq(BLOCK)
    rng = np.random.default_rng(1)
    tones = np.where(np.abs(f) < 0.4, np.exp(2j * np.pi * rng.random(BLOCK)), 0)
    return np.fft.ifft(tones * spectrum(f)) * shape


@pytest.mark.parametrize("channel", ["flat", "indoor", "epa", "eva", "etu"])
@pytest.mark.parametrize("rate", [2_500_000, 20_000_000])
def test_echoes_are_those_of_the_profile(channel, rate):
    """In the frequency domain an echo is a turning phasor, also between two samples."""
    profile = PROFILES[channel]
    level = 4.0

    def response(f):
        turns = np.multiply.outer(f * rate, profile.delays_seconds)
        return np.exp(-2j * np.pi * turns) @ np.sqrt(profile.powers())

    x = in_band(level, np.ones_like)
    heard = hear(x, channel=channel, fading="none", rate=rate)
    # From the second time round, all echoes are there; half a step of the converter, and -60 dB.
    error = heard[BLOCK : 2 * BLOCK] - in_band(level, response)
    assert np.abs(error).max() <= STEP + 1e-3 * np.abs(x).max()


@pytest.mark.parametrize("delay", [0, 1, 500])
def test_delays_of_whole_samples_are_exact(delay):
    delays = ((0, delay / RATE, 0),) + ((0.0, 0.0, 0.0),) * 2
    # A turn of the carrier comes with it, exp(-j 2 pi f delay): 120 turns a sample at 2.4 GHz and 20 Msps.
    heard = hear(noise(), delay_seconds=delays)
    assert np.abs(heard[BLOCK : 2 * BLOCK] - np.roll(noise(), delay)).max() <= STEP


def test_fading_is_reciprocal_and_every_pair_has_its_own():
    ones = np.full(BLOCK, 0.2)
    air = {"channel": "flat", "fading": "rayleigh"}
    there, back = (hear(ones, receiver, sender, blocks=1, **air) for receiver, sender in ((1, 0), (0, 1)))
    assert np.array_equal(there, back)
    other = hear(ones, 2, 0, blocks=1, **air)
    assert abs(other[0] - there[0]) > 10 * STEP


def test_fading_goes_from_draw_to_draw_without_a_jump_and_keeps_its_mean_power():
    """Eras of eight blocks of the receiver; 60 of them know a Rayleigh power to 1 / sqrt(60)."""
    eras, era = 60, 8 * HOP
    blocks = -(-(eras + 1) * era // BLOCK)
    heard = hear(np.full(BLOCK, 0.2), blocks=blocks, channel="flat", fading="rayleigh", coherence_seconds=era / RATE)
    drawn, between = heard[: eras * era : era], heard[era // 2 : eras * era : era]
    assert len(np.unique(drawn)) > eras // 2
    # Half way it is the sum of both draws over sqrt(2), so the power's mean is the same at any time.
    assert np.abs(between[:-1] - (drawn[:-1] + drawn[1:]) / np.sqrt(2)).max() < 3 * STEP
    for times in (drawn, between):
        assert np.mean(np.abs(times) ** 2) / 0.2**2 == pytest.approx(1.0, abs=4 / np.sqrt(eras))
    # In a block it goes at most a 1/8 of a quarter turn of the larger draws' sum: two samples hardly differ.
    steepest = np.pi / 2 / era * 2 * np.abs(drawn).max()
    assert np.abs(np.diff(heard)).max() < steepest + 2 * STEP


def test_a_line_of_sight_stays_while_the_echoes_change():
    """Rician, K = 10 dB: 10/11 of the first tap's power stays; 400 draws know the rest to 1 / 20."""
    settings = VirtualAirSettings((CrystalSettings(),) * 2, channel="eva", fading="rician", coherence_seconds=1.0)
    gains, back = (
        np.array([Echoes(settings).paths(*pair, t + 0.3).gains for t in range(400)]) for pair in ((0, 1), (1, 0))
    )
    assert np.array_equal(gains, back)
    powers = PROFILES["eva"].powers()
    assert np.mean(np.abs(gains) ** 2, axis=0) == pytest.approx(powers, rel=4 / 20)
    assert abs(gains[:, 0].mean()) ** 2 == pytest.approx(powers[0] * 10 / 11, rel=0.1)
    assert np.all(np.abs(gains[:, 1:].mean(axis=0)) < 4 / 20 * np.sqrt(powers[1:]))


def test_noise_is_each_radios_own_and_a_seeds():
    air = {"snr_db": 20.0}
    first, again = (hear(np.zeros(BLOCK), 1, 0, blocks=2, **air) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, hear(np.zeros(BLOCK), 2, 0, blocks=2, **air))
    assert not np.array_equal(first, hear(np.zeros(BLOCK), 1, 0, blocks=2, seed=2, **air))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("crystals", ()),
        ("lo_ppm", (1.0,)),
        ("delay_seconds", ((0.0,),)),
        ("delay_seconds", ((0.0, -1.0), (0.0, 0.0))),
        ("channel", "outer space"),
        ("fading", "some"),
        ("snr_db", float("nan")),
        ("seed", -1),
        ("path_loss_db", 1e9),
    ],
)
def test_what_no_air_is_like_is_refused(name, value):
    options = {"crystals": (CrystalSettings(),) * 2} | {name: value}
    with pytest.raises(ValueError, match="must be"):
        VirtualAirSettings(**options)

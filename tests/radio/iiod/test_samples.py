# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples through virtual Plutos, with the real libiio and pyadi-iio over TCP: exact where nothing lies in between."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oac_blocks.dsp.channel.crystal import CrystalSettings

LSB = 16  # of the transmitter's 16-bit words: the converters have 12 bits
UNITY_TX_GAIN_DB, UNITY_RX_GAIN_DB = -10, 50  # together they make up for the path loss, 40 dB
BLOCK = 4096


def random_words(n, seed, largest=600):
    """Random samples that a 12-bit converter knows, as 16-bit words."""
    rng = np.random.default_rng(seed)
    return LSB * (rng.integers(-largest, largest, n) + 1j * rng.integers(-largest, largest, n))


def stream(radio, words, primed=2):
    """Send these samples and hear as many, block for block."""
    blocks = words.reshape(-1, BLOCK)
    for block in blocks[:primed]:
        radio.tx(block)
    heard = []
    for i in range(len(blocks)):
        heard.append(radio.rx())
        radio.tx(blocks[i + primed] if i + primed < len(blocks) else np.zeros(BLOCK))
    return np.concatenate(heard)


def stream_all(radios, words):
    with ThreadPoolExecutor(len(radios)) as pool:
        return list(pool.map(stream, radios, words))


def test_transmitters_add_up_to_the_last_bit(plutos, client):
    served = plutos(3, lock_step=True)
    radios = [client(uri) for uri in served.uris]
    words = [random_words(6 * BLOCK, seed) for seed in range(3)]
    heard = stream_all(radios, words)
    for i in range(3):
        others = sum(words[j] for j in range(3) if j != i)
        assert np.array_equal(heard[i], others / LSB)


def test_leakage_is_one_more_transmitter(plutos, client):
    served = plutos(3, lock_step=True, leakage_db=0.0)
    radios = [client(uri) for uri in served.uris]
    words = [random_words(3 * BLOCK, seed) for seed in range(3)]
    for heard in stream_all(radios, words):
        assert np.array_equal(heard, sum(words) / LSB)


def test_words_between_the_converters_steps_arrive_within_one(plutos, client):
    served = plutos(2, lock_step=True)
    radios = [client(uri) for uri in served.uris]
    rng = np.random.default_rng(1)
    words = [rng.integers(-30_000, 30_000, 3 * BLOCK) + 1j * rng.integers(-30_000, 30_000, 3 * BLOCK) for _ in range(2)]
    heard = stream_all(radios, words)
    for i in range(2):
        error = heard[i] - words[1 - i] / LSB
        assert max(np.abs(error.real).max(), np.abs(error.imag).max()) <= 1


def test_beyond_full_scale_is_clipped(plutos, client):
    served = plutos(2, lock_step=True)
    radios = [client(uri, rx_gain=UNITY_RX_GAIN_DB + 10) for uri in served.uris]
    words = [random_words(3 * BLOCK, seed, largest=1500) for seed in range(2)]
    heard = stream_all(radios, words)
    wanted = 10**0.5 * words[1] / LSB
    for part in ("real", "imag"):
        clipped = np.clip(getattr(wanted, part), -2048, 2047)
        assert np.abs(getattr(heard[0], part) - clipped).max() <= 0.51
        assert np.abs(getattr(heard[0], part)).max() == 2048


def test_the_digital_loopback_returns_what_is_sent(plutos, client):
    served = plutos(1, lock_step=True, crystals=(CrystalSettings(20.0),), snr_db=0.0)
    radio = client(served.uris[0], rx_gain=3)
    radio.loopback = 1
    words = random_words(4 * BLOCK, 1)
    assert np.array_equal(stream(radio, words), words / LSB)


def cyclic(served, client, words, receiver=1, **settings):
    """What radio 1 hears of radio 0's cyclic buffer."""
    sender, receiver = client(served.uris[0]), client(served.uris[1], block=len(words))
    for name, value in settings.items():
        setattr(sender if name.startswith("tx") else receiver, name, value)
    sender.tx_cyclic_buffer = True
    sender.tx(words)
    for _ in range(3):
        heard = receiver.rx()
    return heard


def tone(cycles, n=BLOCK, amplitude=500):
    return LSB * amplitude * np.exp(2j * np.pi * cycles * np.arange(n) / n)


def level_db(heard, cycles):
    """Of one line of the spectrum, in dB of a converter step."""
    return 20 * np.log10(np.abs(np.fft.fft(heard)[cycles]) / len(heard) + 1e-9)


@pytest.mark.parametrize(("tx", "rx"), [(-10, 50), (-16, 50), (-10, 44), (-30.25, 60), (0, 37)])
def test_gains_act_in_decibels(plutos, client, tx, rx):
    served = plutos(2)
    settings = {"tx_hardwaregain_chan0": tx, "rx_hardwaregain_chan0": rx}
    heard = cyclic(served, client, tone(64), **settings)
    assert level_db(heard, 64) == pytest.approx(20 * np.log10(500) + tx + rx - 40, abs=0.05)


def test_oscillators_apart_shift_the_spectrum(plutos, client):
    served = plutos(2)
    step = 1_000_000 / BLOCK
    heard = cyclic(served, client, tone(64), tx_lo=2_400_000_000 + round(512 * step))
    assert level_db(heard, 64 + 512) == pytest.approx(20 * np.log10(500), abs=0.1)


def test_oscillators_far_apart_hear_nothing(plutos, client):
    assert not cyclic(plutos(2), client, tone(64), tx_lo=2_410_000_000).any()


def test_a_narrow_filter_takes_the_edges_away(plutos, client):
    """At 1 Msps, 200 kHz of bandwidth: a tone at 50 kHz passes, one at 250 kHz does not."""
    served = plutos(2)
    cycles = [round(hertz / 1e6 * BLOCK) for hertz in (50e3, 250e3)]
    heard = cyclic(served, client, tone(cycles[0]) + tone(cycles[1]), rx_rf_bandwidth=200_000)
    assert level_db(heard, cycles[0]) == pytest.approx(20 * np.log10(500), abs=0.2)
    assert level_db(heard, cycles[1]) < 20 * np.log10(500) - 50


def test_rates_apart_keep_frequencies_in_hertz(plutos, client):
    """A tone of 125 kHz sent at 1 Msps is one of 125 kHz at 2 Msps."""
    served = plutos(2)
    sender, receiver = client(served.uris[0], rate=1_000_000), client(served.uris[1], rate=2_000_000)
    sender.tx_cyclic_buffer = True
    sender.tx(tone(BLOCK // 8))
    for _ in range(3):
        heard = receiver.rx()
    assert level_db(heard, BLOCK // 16) == pytest.approx(20 * np.log10(500), abs=0.1)


def test_decimation_in_the_fpga_is_another_rate(plutos, client):
    """A tone of 15.625 kHz sent at 1 Msps: an eighth of 125 ksps."""
    heard = cyclic(plutos(2), client, tone(BLOCK // 64), rx_dec8_filter_en=True)
    assert level_db(heard, BLOCK // 8) == pytest.approx(20 * np.log10(500), abs=0.1)


def test_crystals_apart_shift_the_carrier(plutos, client):
    """20 ppm of 2.4 GHz are 48 kHz."""
    served = plutos(2, crystals=(CrystalSettings(20.0), CrystalSettings()))
    heard = cyclic(served, client, tone(0, amplitude=500))
    spectrum = np.abs(np.fft.fft(heard * np.hanning(BLOCK)))
    assert np.argmax(spectrum) * 1e6 / BLOCK == pytest.approx(48e3, abs=1e6 / BLOCK)


def test_the_crystals_correction_counts(plutos, client):
    """A radio that is told that its crystal is 20 ppm fast sends where it should."""
    served = plutos(2, crystals=(CrystalSettings(20.0), CrystalSettings()))
    sender = client(served.uris[0])
    sender._ctrl.attrs["xo_correction"].value = "40000800"
    heard = cyclic(served, client, tone(0))
    spectrum = np.abs(np.fft.fft(heard * np.hanning(BLOCK)))
    assert np.argmax(np.fft.fftshift(spectrum)) == pytest.approx(BLOCK // 2, abs=1)


def test_noise_has_the_power_that_was_asked_for(plutos, client):
    """A signal of -12 dBFS at a TX gain of -10 dB is 10 dB above it; here the receiver's gain makes it 0 dB there."""
    served = plutos(2, snr_db=10.0, snr_bandwidth_hz=1e6)  # the client's sample rate
    receiver = client(served.uris[0], block=1 << 16)
    heard = receiver.rx()
    wanted = 2048**2 * 10 ** ((-12 - 10) / 10)
    assert np.mean(np.abs(heard) ** 2) == pytest.approx(wanted, rel=5 / np.sqrt(len(heard)))


AGC_SIGNALS = {"tone": tone(64), "weak-tone": tone(64, amplitude=60), "noise-like": random_words(BLOCK, 1, 1500)}


@pytest.mark.parametrize("mode", ["fast_attack", "slow_attack", "hybrid"])
@pytest.mark.parametrize("signal", AGC_SIGNALS)
def test_automatic_gain_brings_the_level_to_its_aim(plutos, client, mode, signal):
    """-11 dB of full scale, within 1 dB."""
    served, words = plutos(2), AGC_SIGNALS[signal]
    sender, receiver = client(served.uris[0]), client(served.uris[1], block=1 << 14)
    receiver.gain_control_mode_chan0 = mode
    sender.tx_cyclic_buffer = True
    sender.tx(words)
    for _ in range(10):  # 0.16 s; the first four blocks may be from before
        heard = receiver.rx()
    sent_db, rms_db = (10 * np.log10(np.mean(np.abs(x) ** 2) / 2048**2) for x in (words / LSB, heard))
    assert rms_db == pytest.approx(-11, abs=1)
    assert receiver.rx_hardwaregain_chan0 == pytest.approx(50 + rms_db - sent_db, abs=0.1)


def test_a_generator_makes_a_tone(plutos, client):
    served = plutos(2)
    sender, receiver = client(served.uris[0]), client(served.uris[1])
    sender.dds_single_tone(125_000, 0.25)
    for _ in range(3):
        heard = receiver.rx()
    assert level_db(heard, BLOCK // 8) == pytest.approx(20 * np.log10(512), abs=0.1)
    assert level_db(heard, -BLOCK // 8) < 20 * np.log10(512) - 40


def test_a_transmitter_that_is_off_is_silent(plutos, client):
    served = plutos(2)
    sender, receiver = client(served.uris[0]), client(served.uris[1])
    sender._ctrl.find_channel("altvoltage1", True).attrs["powerdown"].value = "1"
    sender.tx_cyclic_buffer = True
    sender.tx(tone(64))
    for _ in range(3):
        assert not receiver.rx().any()


def test_the_same_seed_gives_the_same_samples(plutos, client):
    def run():
        crystals = (CrystalSettings(20.0, wobble_ppm=1), CrystalSettings(-20.0, 1.0))
        served = plutos(2, lock_step=True, crystals=crystals, snr_db=20.0, channel="indoor", seed=7)
        radios = [client(uri) for uri in served.uris]
        return stream_all(radios, [random_words(8 * BLOCK, seed) for seed in range(2)])

    first, second = run(), run()
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))

# SPDX-License-Identifier: GPL-3.0-or-later
"""The radios' part of a config is the same for `fl_app` and for those who do not know `fl_app`."""

import math

import pytest

from fl_app.config import load_settings
from oac_blocks.bench.config import load_bench
from oac_blocks.bench.section import ConfigError
from oac_blocks.bench.settings import TRIGGER_AMPLITUDE, max_cfo_rad
from oac_blocks.bench.threads.plan import BenchSettings, settings_for
from oac_blocks.dsp.waveform.numerology import Numerology
from oac_blocks.dsp.waveform.trigger import trigger

CONFIG = """
[run]
rounds = 3
[clients]
n = 2
[air]
name = "pluto"
snr_db = 10.0
fft_size = 64
cp_samples = 16
active_subcarriers = 48
dc_nulls = 4
groups = 2
[radios]
server = "ip:192.168.2.1"
clients = ["ip:192.168.3.1", "ip:192.168.4.1"]
frequency_hz = 2.4e9
sample_rate_hz = 1e6
tx_gain_db = -12.5
"""


def test_the_bench_and_the_application_read_the_same(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text(CONFIG)
    settings, bench = load_settings(path), load_bench(path)
    assert bench.radios == settings.radios
    assert bench.waveform.agreed() == settings.air.agreed()
    assert bench.waveform.numerology() == settings.air.numerology() == Numerology(1e6, 64, 16, 48, 4)
    (tmp_path / "full.toml").write_text(settings.toml())
    assert load_bench(tmp_path / "full.toml") == bench


def test_without_a_file_there_are_the_radios_defaults_and_options_replace_them():
    assert load_bench().waveform.numerology() == Numerology(sample_rate_hz=2.5e6)
    bench = load_bench("", sample_rate_hz=1e6, fft_size=128, active_subcarriers=96, server="ip:a", rx_gain_db=None)
    assert (bench.waveform.fft_size, bench.waveform.sample_rate_hz, bench.radios.server) == (128, 1e6, "ip:a")
    assert bench.radios.rx_gain_db == load_bench().radios.rx_gain_db


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[radios]\nrx_gian_db = 3\n", "[radios] rx_gian_db: unknown key; did you mean 'rx_gain_db'?"),
        ("[air]\nfft_size = 63\n", "[air] fft_size must be even, got 63"),
        ("air = 3\n", "[air] must be a section, not 3"),
        ("[air]\nsample_rate_hz = 1e6\n[radios]\nsample_rate_hz = 4e6\n", "there is one rate"),
        ("[air\n", "is not TOML"),
    ],
)
def test_a_wrong_file_is_named_with_its_fault(tmp_path, text, says):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_bench(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_radios_run_at_their_own_default_where_a_file_names_no_rate(tmp_path):
    path = tmp_path / "waveform.toml"
    path.write_text("[air]\nfft_size = 512\n")
    assert load_bench(path).waveform.numerology() == Numerology(2.5e6, 512)
    assert load_bench(path, sample_rate_hz=1e6).waveform.sample_rate_hz == 1e6


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.toml: No such file"):
        load_bench(tmp_path / "nowhere.toml")


def test_clients_search_as_far_as_two_crystals_may_be_apart():
    # Server and client 20 ppm off, in opposite directions: 96 kHz at 2.4 GHz.
    assert max_cfo_rad(2.4e9, 2.5e6) == pytest.approx(2 * math.pi * 96e3 / 2.5e6)
    assert max_cfo_rad(2.4e9, 2.5e6, crystal_ppm=25.0) == pytest.approx(2 * math.pi * 120e3 / 2.5e6)
    assert settings_for(2, Numerology(2.5e6), "lock-step", 2.4e9).max_cfo_rad == max_cfo_rad(2.4e9, 2.5e6)


def test_the_trigger_of_both_transports_stays_below_full_scale():
    pluto = pytest.importorskip("oac_blocks.bench.flows.pluto").PlutoSettings("ip:a", 2.4e9)
    assert BenchSettings().trigger_amplitude == pluto.trigger_amplitude == TRIGGER_AMPLITUDE
    assert BenchSettings().amplitude == pluto.amplitude
    assert pluto.max_cfo_rad == max_cfo_rad(2.4e9, 2.5e6)
    assert TRIGGER_AMPLITUDE * abs(trigger()).max() < 0.75

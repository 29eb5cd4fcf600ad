# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong settings are named, with what is allowed."""

import re
from typing import get_args

import pytest

from fl_app.air import AIR_NAMES, AirSettings, make_air
from oac_blocks.bench.config import RadiosSection
from oac_blocks.dsp.channel.fading import PROFILES


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "vacuum"}, "[air] name = 'vacuum': There are ideal, fading, waveform, gnuradio, pluto"),
        ({"mode": "twobit"}, "[air] mode = 'twobit': did you mean 'onebit'? There are onebit, analog"),
        ({"fading": "nakagami"}, "[air] fading = 'nakagami': There are none, rayleigh, rician"),
        ({"profile": "urban"}, "[air] profile = 'urban': There are flat, indoor, epa, eva, etu"),
        ({"inversion": "full"}, "[air] inversion = 'full': There are phase, truncated"),
        ({"snr_db": float("nan")}, "[air] snr_db = nan: must be a finite number"),
        ({"snr_db": "loud"}, "[air] snr_db = 'loud': must be a valid number"),
        ({"snr": 3.0}, "[air] snr: unknown key; did you mean 'snr_db'?"),
        ({"noise_alpha": 2.1}, "[air] noise_alpha = 2.1: must be at most 2"),
        ({"noise_alpha": 0.0}, "[air] noise_alpha = 0.0: must be at least 0.5"),
        ({"clip_level": 0.5}, "[air] clip_level = 0.5: must be at least 1"),
        ({"limiter_level": -1.0}, "[air] limiter_level = -1.0: must be at least 1"),
        ({"clock_ppm": -20.0}, "[air] clock_ppm = -20.0: must be at least 0"),
        ({"clock_ppm": None}, "[air] clock_ppm = None: must be a valid number"),
        ({"timing_sigma_samples": -1.0}, "[air] timing_sigma_samples = -1.0: must be at least 0"),
        ({"cfo_residual_hz": float("inf")}, "[air] cfo_residual_hz = inf: must be a finite number"),
        ({"repeats": 0}, "[air] repeats = 0: must be at least 1"),
        ({"repeats": 65}, "[air] repeats = 65: must be at most 64"),
        ({"repeats": 1.5}, "[air] repeats = 1.5: must be a valid integer"),
        ({"groups": 0}, "[air] groups = 0: must be at least 1"),
        ({"groups": 8, "max_burst_symbols": 8}, "[air] max_burst_symbols must be an integer >= 9, got 8"),
        ({"adc_bits": 0}, "[air] adc_bits = 0: must be at least 1"),
        ({"least_magnitude": 0.0}, "[air] least_magnitude = 0.0: must be greater than 0"),
        ({"pilot_symbols": 0}, "[air] pilot_symbols = 0: must be at least 1"),
        ({"cp_samples": 1000}, "[air] cp_samples must be at most fft_size"),
        ({"noise_std": 1.0, "mode": "onebit"}, "[air] noise_std must be left out in onebit mode"),
        ({"repeats": 2, "mode": "analog"}, "[air] repeats must be 1 in analog mode"),
    ],
)
def test_wrong_settings_are_named_with_section_value_and_what_is_allowed(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        AirSettings(**wrong)
    with pytest.raises(ValueError, match=re.escape(message)):
        AirSettings().with_values(**wrong)


def test_all_wrong_settings_are_named_at_once():
    with pytest.raises(ValueError, match="snr_db") as caught:
        AirSettings(snr_db=1e9, repeats=0)
    assert len(str(caught.value).splitlines()) == 2


def test_settings_are_frozen_and_made_of_plain_values():
    settings = AirSettings(snr_db=None)
    with pytest.raises(ValueError, match="frozen"):
        settings.snr_db = 3.0  # type: ignore[misc]
    assert settings.plain()["snr_db"] == "none"
    assert AirSettings(**settings.plain()) == settings == AirSettings(**settings.model_dump())


def test_profiles_are_those_of_the_channel():
    assert get_args(AirSettings.model_fields["profile"].annotation) == tuple(PROFILES)


@pytest.mark.parametrize("name", AIR_NAMES)
@pytest.mark.parametrize(("wrong", "what"), [({"n_clients": 0}, "n_clients"), ({"seed": -1}, "seed")])
def test_make_air_checks_clients_and_seed(name, wrong, what):
    if name == "gnuradio":
        pytest.importorskip("gnuradio")
    with pytest.raises(ValueError, match=f"{what} must be an integer (>=|from) "):
        make_air(AirSettings(name=name), **{"n_clients": 2, "seed": 0, **wrong})


def test_an_inversion_under_which_nobody_would_send_is_refused():
    settings = AirSettings(mode="analog", fading="none", inversion="truncated", least_magnitude=2.0)
    with pytest.raises(ValueError, match="least_magnitude must be small enough"):
        make_air(settings, 2, 0)


def test_radios_with_a_flowgraph_each_are_for_the_command_up():
    radios = RadiosSection(server="ip:a", clients=["ip:b"], transport="flowgraphs", frequency_hz=2.4e9)
    with pytest.raises(ValueError, match=r"\[radios\] transport = 'flowgraphs': .* `fl_app up CONFIG`"):
        make_air(AirSettings(name="pluto", sample_rate_hz=2.5e6), 1, 0, radios)

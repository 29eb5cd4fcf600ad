# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong settings are named, with what is allowed."""

import dataclasses

import pytest

from fl_app.air import AIR_NAMES, AirSettings, make_air


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "vacuum"}, "name must be one of ideal, fading, waveform, gnuradio, pluto, got 'vacuum'"),
        ({"mode": "twobit"}, "mode must be one of analog, onebit, got 'twobit'"),
        ({"fading": "nakagami"}, "fading must be one of none, rayleigh, rician"),
        ({"profile": "urban"}, "profile must be one of flat, indoor, epa, eva, etu"),
        ({"inversion": "full"}, "inversion must be one of phase, truncated"),
        ({"snr_db": float("nan")}, "snr_db must be a finite number"),
        ({"snr_db": "loud"}, "snr_db must be a finite number"),
        ({"noise_alpha": 2.1}, "noise_alpha must be .* got 2.1"),
        ({"noise_alpha": 0.0}, "noise_alpha must be"),
        ({"clip_level": 0.5}, "clip_level must be a finite number >= 1"),
        ({"limiter_level": -1.0}, "limiter_level must be"),
        ({"clock_ppm": -20.0}, "clock_ppm must be .* >= 0"),
        ({"clock_ppm": None}, "clock_ppm must be"),
        ({"timing_sigma_samples": -1.0}, "timing_sigma_samples must be"),
        ({"cfo_residual_hz": float("inf")}, "cfo_residual_hz must be"),
        ({"repeats": 0}, "repeats must be an integer from 1 to 64, got 0"),
        ({"repeats": 1.5}, "repeats must be an integer"),
        ({"groups": 0}, "groups must be an integer"),
        ({"groups": 8, "max_burst_symbols": 8}, "max_burst_symbols must be an integer >= 9, got 8"),
        ({"adc_bits": 0}, "adc_bits must be an integer from 1 to 24"),
        ({"least_magnitude": 0.0}, "least_magnitude must be"),
        ({"pilot_symbols": 0}, "pilot_symbols must be"),
        ({"cp_samples": 1000}, "cp_samples must be at most fft_size"),
        ({"noise_std": 1.0, "mode": "onebit"}, "noise_std must be left out in onebit mode"),
        ({"repeats": 2, "mode": "analog"}, "repeats must be 1 in analog mode"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        AirSettings(**wrong)


def test_settings_are_frozen_and_made_of_plain_values():
    settings = AirSettings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.snr_db = 3.0  # type: ignore[misc]
    assert AirSettings(**dataclasses.asdict(settings)) == settings


@pytest.mark.parametrize("name", AIR_NAMES)
@pytest.mark.parametrize(("wrong", "what"), [({"n_clients": 0}, "n_clients"), ({"seed": -1}, "seed")])
def test_make_air_checks_clients_and_seed(name, wrong, what):
    with pytest.raises(ValueError, match=f"{what} must be an integer (>=|from) "):
        make_air(AirSettings(name=name), **{"n_clients": 2, "seed": 0, **wrong})


def test_an_inversion_under_which_nobody_would_send_is_refused():
    settings = AirSettings(mode="analog", fading="none", inversion="truncated", least_magnitude=2.0)
    with pytest.raises(ValueError, match="least_magnitude must be small enough"):
        make_air(settings, 2, 0)

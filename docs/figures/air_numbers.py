# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the numbers of docs/air.md about analog mode: its squared error, impairment by impairment.

.venv/bin/python docs/figures/air_numbers.py            # the simulated airs, half a minute
.venv/bin/python docs/figures/air_numbers.py --gnuradio # the table of the flowgraph as well, a few minutes

The squared error is relative to the power of the true mean. Entries are Gaussian and independent over the clients.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from fl_app.air import AirSettings, make_air
from fl_app.air.bursts import plan
from fl_app.air.pilots import pilot_noise, residual_cfo_hz
from fl_app.air.simulation.coherence import coherence_of
from fl_app.air.simulation.gains import mean_gain

K = 21_880
EXACT: dict[str, Any] = {
    "snr_db": None,
    "fading": "none",
    "clock_ppm": 0.0,
    "clock_walk_ppm": 0.0,
    "cfo_residual_hz": 0.0,
    "timing_sigma_samples": 0.0,
    "pilot_snr_db": None,
    "pilot_timing_sigma_samples": 0.0,
    "adc_bits": None,
}


def squared_errors(rounds: int, clients: int = 10, k: int = K, **settings: Any) -> np.ndarray:
    """Return the relative squared error of each round."""
    rng = np.random.default_rng(1)
    errors = np.empty(rounds)
    with make_air(AirSettings(mode="analog", **settings), clients, 1) as air:
        for t in range(rounds):
            g = rng.standard_normal((clients, k), np.float32)
            mean = g.mean(axis=0)
            errors[t] = np.mean((air.uplink(g, np.arange(clients), t).received - mean) ** 2) / np.mean(mean**2)
    return errors


def show(name: str, errors: np.ndarray) -> None:
    standard_error = errors.std(ddof=1) / np.sqrt(len(errors))
    print(f"{name:58} {errors.mean():.5f} +- {standard_error:.5f}  ({len(errors)} rounds)")


def fading() -> None:
    print("\n10 clients, 20 dB, Rayleigh fading")
    young = {"pilot_age_seconds": 0.0}
    for inversion in ("phase", "truncated"):
        show(f"fading, {inversion}", squared_errors(200, k=4000, name="fading", inversion=inversion))
        show(f"waveform, {inversion}", squared_errors(200, k=4000, inversion=inversion))
        show(f"waveform, {inversion}, pilot just before", squared_errors(200, k=4000, inversion=inversion, **young))


def impairments() -> None:
    print("\n10 clients, k = 21,880, no fading, one impairment at a time")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("noise at 20 dB", {"snr_db": 20.0}),
        ("pilot noise at 30 dB", {"pilot_snr_db": 30.0}),
        ("pilot noise at 20 dB", {"pilot_snr_db": 20.0}),
        ("residual offset 1 Hz, pilot 20 ms old", {"cfo_residual_hz": 1.0}),
        ("residual offset 2.1 Hz, pilot 20 ms old", {"cfo_residual_hz": 2.1}),
        ("residual offset 6.5 Hz, pilot 20 ms old", {"cfo_residual_hz": 6.5}),
        ("residual offset 10 Hz, pilot 20 ms old", {"cfo_residual_hz": 10.0}),
        ("residual offset 10 Hz, pilot just before", {"cfo_residual_hz": 10.0, "pilot_age_seconds": 0.0}),
        ("unseen change of timing 0.05 samples", {"pilot_timing_sigma_samples": 0.05}),
        ("unseen change of timing 0.5 samples", {"pilot_timing_sigma_samples": 0.5}),
        ("clocks of 20 ppm", {"clock_ppm": 20.0}),
        ("timing error 0.5 samples", {"timing_sigma_samples": 0.5}),
        ("converter of 12 bits", {"adc_bits": 12}),
        ("converter of 8 bits", {"adc_bits": 8}),
    ]
    for name, change in cases:
        show(name, squared_errors(100 if "offset" in name or "timing" in name else 8, **{**EXACT, **change}))
    show("all defaults, no fading", squared_errors(100, fading="none"))
    show("all defaults, no fading, 4 pilot symbols", squared_errors(100, fading="none", pilot_symbols=4))
    show("all defaults, no fading, pilot just before", squared_errors(100, fading="none", pilot_age_seconds=0.0))


def shares() -> None:
    settings = AirSettings(mode="analog")
    share = coherence_of(plan(K, settings)[0].layout, settings)
    print(f"\nresidual offset of the defaults: {residual_cfo_hz(settings):.2f} Hz")
    print(f"share of the amplitude that it leaves: {share.of_symbols[0]:.3f} to {share.of_symbols[-1]:.3f}")
    print(
        f"mean gain of the fading with the pilot's noise: {mean_gain(settings, pilot_noise=pilot_noise(settings)):.4f}"
    )
    for sigma in (0.05, 0.5):
        timing = coherence_of(plan(K, settings)[0].layout, settings.with_values(pilot_timing_sigma_samples=sigma))
        print(f"share that {sigma} samples leave, mean over the band: {timing.of_tones.mean():.3f}")
    for hertz in (1.0, 3.0, 10.0, 20.0):
        print(f"share that {hertz:g} Hz leave after 20 ms: {np.exp(-((2 * np.pi * hertz * 0.02) ** 2) / 2):.3f}")


def heavy_tails() -> None:
    print("\nalpha = 1.2, 10 dB, 4 clients, no fading, defaults: mean squared error, entries of variance 1")
    common = {"snr_db": 10.0, "noise_alpha": 1.2, "adc_bits": None, "fading": "none"}
    for name, more in (
        ("bare", {}),
        ("clip_level = 5", {"clip_level": 5.0}),
        ("limiter_level = 3", {"limiter_level": 3.0}),
    ):
        errors = squared_errors(100, clients=4, k=9600, **common, **more) / 4
        low, high = np.quantile(errors, [0.1, 0.9])
        print(f"{name:20} median {np.median(errors):.3f}, 80 % of rounds from {low:.3f} to {high:.3f}")


def flowgraph() -> None:
    print("\nwithout clock errors, 20 dB, k = 3,000")
    in_time = {name: EXACT[name] for name in EXACT if name not in ("snr_db", "fading", "pilot_snr_db")}
    cases: list[tuple[str, int, int, dict[str, Any]]] = [
        ("no fading, 4 clients", 4, 20, {"fading": "none"}),
        ("Rayleigh, epa, 4 clients", 4, 300, {"profile": "epa"}),
        ("truncated, 12 bits, 10 clients", 10, 300, {"profile": "epa", "inversion": "truncated", "adc_bits": 12}),
    ]
    for name, clients, rounds, more in cases:
        for air in ("gnuradio", "waveform"):
            show(f"{air}: {name}", squared_errors(rounds, clients, 3000, name=air, **{**in_time, **more}))


def main() -> None:
    shares()
    fading()
    impairments()
    heavy_tails()
    if "--gnuradio" in sys.argv:
        flowgraph()


if __name__ == "__main__":
    main()

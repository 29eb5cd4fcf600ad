# SPDX-License-Identifier: GPL-3.0-or-later
"""Print what the schemes' amplitudes do to peaks, and what clipping at a transmitter costs.

The peak of a symbol is its largest envelope power with fourfold oversampling, relative to the mean power of the burst:
a converter has one full scale for the whole burst. Clipping cuts the envelope of the transmitted samples at a level
above the burst's mean power. Its cost is the mean squared error of what a server without noise and fading detects from
one client, relative to the mean square of the entries.
"""

from __future__ import annotations

import numpy as np

from oac_blocks.dsp import Numerology, ofdm
from oac_blocks.dsp.waveform.analog import common_scale
from oac_blocks.dsp.waveform.schemes import scheme_named

NUM, K = Numerology(), 192 * 500
LEVELS_DB = (4, 6, 8)


def burst(name: str, entries: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    scheme = scheme_named(name)
    rms, peak = np.array([np.sqrt(np.mean(entries**2))]), np.array([np.abs(entries).max()])
    scale = common_scale(float(rms[0])) if scheme.coherent else scheme.common_scale(rms, peak)
    return scheme.encode(scheme.payload_of(entries, rng), NUM, rng=rng, scale=scale), scale


def peaks_db(grid: np.ndarray) -> np.ndarray:
    """Return each symbol's peak over the mean power of the burst, in dB."""
    wide = np.zeros((len(grid), 4 * NUM.fft_size), np.complex64)
    bins = np.round(NUM.subcarrier_frequencies() * NUM.fft_size).astype(int)
    wide[:, bins] = grid
    power = np.abs(np.fft.ifft(wide, axis=1)) ** 2
    return 10 * np.log10(power.max(axis=1) / power.mean())


def clipped(name: str, entries: np.ndarray, grid: np.ndarray, scale: float, level_db: float) -> float:
    """Return the relative error of the entries that a server detects after clipping."""
    samples = ofdm.modulate(grid, NUM)
    most = np.sqrt(np.mean(np.abs(samples) ** 2) * 10 ** (level_db / 10))
    magnitude = np.maximum(np.abs(samples), 1e-30)
    samples = samples * np.minimum(1, most / magnitude).astype(np.float32)
    scheme = scheme_named(name)
    received = scheme.detect(ofdm.demodulate(samples, NUM), len(entries), NUM, scale=scale)
    wanted = np.sign(entries) if name == "onebit" else entries
    return float(np.mean((received - wanted) ** 2) / np.mean(wanted.astype(np.float64) ** 2))


def main() -> None:
    print("entries | scheme | peak over mean power: median, 99.9 % (dB) | error after clipping at", *LEVELS_DB, "dB")
    for title, draw in (
        ("Gaussian", lambda rng: rng.standard_normal(K)),
        ("Student-t(3)", lambda rng: rng.standard_t(3, K)),
    ):
        for name in ("onebit", "energy", "analog"):
            rng = np.random.default_rng(1)
            entries = draw(rng).astype(np.float32)
            grid, scale = burst(name, entries, rng)
            peaks = peaks_db(grid)
            errors = [clipped(name, entries, grid, scale, level) for level in LEVELS_DB]
            points = f"{np.median(peaks):.1f}, {np.quantile(peaks, 0.999):.1f}"
            print(f"{title} | {name} | {points} |", " ".join(f"{error:.2g}" for error in errors))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws docs/images/sync.png: how well triggers are found and timed, beside GNU Radio's corr_est_cc.

Both blocks get the same samples, and thresholds with which each raises one false alarm in 100,000 samples of noise.

.venv/bin/python docs/figures/sync.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pmt
from gnuradio import blocks, digital, gr

from oac_blocks.blocks.sync_detector import sync_detector
from oac_blocks.dsp import bounds
from oac_blocks.dsp.preamble import trigger

OUT = Path(__file__).parents[1] / "images" / "sync.png"
TRIGGER = trigger()
FALSE_ALARM = 1e-5
SPACING = 2000
CHUNK = 16_384
# What each is set to, so that FALSE_ALARM is what is counted: an event of several samples counts once, and both our
# bound and the exponential distribution of corr_est_cc's filter are for single samples. main() prints the counts.
SETTINGS = {"corr_est_cc": 0.9e-5, "bank": 1.15e-5, "tracking": 1.2e-5}
WITHIN_SAMPLES = 1.5  # of the truth: nearer is a detection
LEAD = 40_000  # samples with one loud trigger, from which the tracking search takes the frequency


def noise(samples: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((samples, 2), np.float32).view(np.complex64)[:, 0] * np.float32(np.sqrt(0.5))


def record(count: int, snr_db: float, cfo_rad: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Noise of power 1 with a loud trigger and ``count`` more at fractional times, and these times."""
    times = LEAD + SPACING * np.arange(count) + rng.random(count)
    x = noise(LEAD + SPACING * count + 4 * CHUNK, rng)
    levels = 10 ** (np.append(10.0, np.full(count, snr_db)) / 20)
    padded = np.pad(TRIGGER, 64)
    n, frequency = np.arange(len(padded)), np.fft.fftfreq(len(padded))
    for time, level in zip(np.append(1000.0, times), levels, strict=True):
        first = int(time)
        moved = np.fft.ifft(np.fft.fft(padded) * np.exp(-2j * np.pi * frequency * (time - first)))
        x[first - 64 : first - 64 + len(padded)] += level * moved * np.exp(1j * (cfo_rad * n + 6 * rng.random()))
    return x, times


def through(block: gr.basic_block, x: np.ndarray, tag_name: str) -> list[tuple[int, Any]]:
    """(offset, value) of the tags that a block puts on its first output."""
    top_block = gr.top_block()
    sink = blocks.vector_sink_c()
    top_block.connect(blocks.vector_source_c(x.tolist()), block, sink)
    top_block.run()
    return [(tag.offset, pmt.to_python(tag.value)) for tag in sink.tags() if str(tag.key) == tag_name]


def ours(x: np.ndarray, false_alarm: float, tracking: bool) -> np.ndarray:
    detector = sync_detector(false_alarm, -100.0, tracking, chunk_samples=CHUNK)
    return np.array([value["time"] for _, value in through(detector, x, "sync")])


def corr_est(x: np.ndarray, false_alarm: float) -> np.ndarray:
    """Times as its tags give them: they stand on the waveform's last sample, counted in the input."""
    # Its threshold is on |correlation|^2 over the energy squared; in noise of power 1 that is exponential with mean
    # 1 / energy. It is told the noise's power by this, which the other block has to do without.
    threshold = -np.log(false_alarm) / len(TRIGGER)
    tags = through(digital.corr_est_cc(TRIGGER.tolist(), 2, 0, threshold), x, "time_est")
    return np.array([offset + value for offset, value in tags]) - (len(TRIGGER) - 1)


def finders() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return {
        "corr_est_cc": lambda x: corr_est(x, SETTINGS["corr_est_cc"]),
        "bank": lambda x: ours(x, SETTINGS["bank"], tracking=False),
        "tracking": lambda x: ours(x, SETTINGS["tracking"], tracking=True),
    }


def nearest_errors(found: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Of each true time: by how much the nearest found one is late, in samples."""
    found = np.sort(np.append(found, (-1e9, 1e9)))
    after = np.searchsorted(found, times)
    late, early = found[after] - times, found[after - 1] - times
    return np.where(-early < late, early, late)


def detected(name: str, snr_db: float, cfo_rad: float, count: int, rng: np.random.Generator) -> float:
    """Share of the triggers that are found."""
    x, times = record(count, snr_db, cfo_rad, rng)
    return float(np.mean(np.abs(nearest_errors(finders()[name](x), times)) < WITHIN_SAMPLES))


def false_alarm_rate(name: str, samples: int, rng: np.random.Generator) -> float:
    x, _ = record(0, 0.0, 0.0, rng)
    x = np.concatenate((x[:LEAD], noise(samples, rng)))
    found = finders()[name](x)
    return float(np.count_nonzero(found > LEAD)) / samples


def timing_rmse(name: str, snr_db: float, cfo_rad: float, count: int, rng: np.random.Generator) -> float:
    """Root-mean-square error in samples, of the triggers that are found."""
    x, times = record(count, snr_db, cfo_rad, rng)
    errors = nearest_errors(finders()[name](x), times)
    return float(np.sqrt(np.mean(errors[np.abs(errors) < WITHIN_SAMPLES] ** 2)))


LABELS = {
    "corr_est_cc": "digital.corr_est_cc",
    "bank": "oac_sync_detector, searching",
    "tracking": "oac_sync_detector, tracking",
}
STYLES = {"corr_est_cc": ("tab:orange", "s"), "bank": ("tab:blue", "o"), "tracking": ("tab:green", "^")}


def main() -> None:
    for name in LABELS:
        rate = false_alarm_rate(name, 6_000_000, np.random.default_rng(1))
        print(f"{name}: {rate:.2e} false alarms a sample")
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")

    snr_db = np.arange(-18.0, -6.5, 1.0)
    for name, (colour, marker) in STYLES.items():
        share = [detected(name, snr, 0.0, 500, np.random.default_rng(10 + i)) for i, snr in enumerate(snr_db)]
        left.plot(snr_db, share, color=colour, marker=marker, markersize=4, label=LABELS[name])
        print(f"{name}: 90 % detected at {np.interp(0.9, share, snr_db):.2f} dB")
    left.set(xlabel="SNR a sample (dB)", ylabel="share of triggers detected", title="No frequency offset")

    cfo_rad = np.array([0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2])
    for name, (colour, marker) in STYLES.items():
        for level, line in ((-5.0, "-"), (-10.0, ":")):
            share = [detected(name, level, cfo, 200, np.random.default_rng(40 + i)) for i, cfo in enumerate(cfo_rad)]
            middle.plot(cfo_rad, share, line, color=colour, marker=marker, markersize=4)
            print(f"{name}: at {level:g} dB", dict(zip(cfo_rad.tolist(), np.round(share, 3).tolist(), strict=True)))
    middle.set(xlabel="frequency offset (rad/sample)", ylabel="share of triggers detected")
    middle.set_title("Solid: −5 dB, dotted: −10 dB")

    snr_db = np.arange(-6.0, 21.0, 2.0)
    bound = np.array([np.sqrt(bounds.joint_crlb(TRIGGER, 10 ** (snr / 10))[0]) for snr in snr_db])
    for name, (colour, marker) in STYLES.items():
        rmse = [timing_rmse(name, snr, 0.0, 500, np.random.default_rng(70 + i)) for i, snr in enumerate(snr_db)]
        right.semilogy(snr_db, rmse, color=colour, marker=marker, markersize=4, label=LABELS[name])
        print(f"{name}: time over bound", np.round(rmse / bound, 2).tolist())
    right.semilogy(snr_db, bound, "k--", label="Cramér-Rao bound")
    right.set(xlabel="SNR a sample (dB)", ylabel="RMS error of the time (samples)", title="No frequency offset")
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()

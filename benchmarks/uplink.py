# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the simulated waveform uplink at the paper's size, against real time and on request against Sionna.

Times are processor time on one core. The unit is a client-sample: one sample of one client's burst.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.environments import environment
from fl_app.air.bursts import plan
from fl_app.air.settings import AirSettings
from fl_app.air.simulation import threads
from fl_app.air.simulation.waveform import WaveformAir

N = 50
ANALOG_ENTRIES = 1_100_000  # 10 % of the parameters of ResNet-18: 2,873 symbols of payload
VOTE_ENTRIES = 110_000  # a majority vote needs four times the symbols of an analog entry
TURNS = 3
REQUIREMENTS = ("sionna-no-rt==2.2.0", "h5py", "importlib-resources")
TIMEOUT_SECONDS = 300


class Case:
    """One scheme in one channel."""

    def __init__(self, mode: str, profile: str, k: int) -> None:
        settings = AirSettings.model_validate({"mode": mode, "profile": profile})
        rng = np.random.default_rng(1)
        self._payload = np.stack([settings.scheme.random_payload(k, rng) for _ in range(N)])
        self._air = WaveformAir(settings, N, 1)
        self.symbols = sum(burst.layout.symbols for burst in plan(k, settings))
        self.client_samples = N * self.symbols * settings.numerology().symbol_samples
        self.real_time_hz = settings.sample_rate_hz

    def run(self) -> float:
        """Return the processor time of a round on the air, in seconds."""
        begin = time.process_time()
        self._air.uplink(self._payload, np.arange(N), 0)
        return time.process_time() - begin


def sionna_seconds(symbols: int, subcarriers: int) -> dict[str, float]:
    """Return the processor times of Sionna for as many symbols."""
    python = environment("sionna", REQUIREMENTS, over_ours=True, dependencies=False) / "bin" / "python"
    peer = Path(__file__).with_name("sionna_peer.py")
    command = [str(part) for part in (python, peer, N, symbols, subcarriers, TURNS)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if run.returncode != 0:
        raise RuntimeError(f"Sionna failed:\n{run.stderr[-2000:]}")
    measured: dict[str, list[float]] = json.loads(run.stdout.splitlines()[-1])
    return {name: statistics.median(values) for name, values in measured.items()}


def main(console: Console, with_sionna: bool = False) -> None:
    sizes = {"onebit": VOTE_ENTRIES, "energy": VOTE_ENTRIES, "analog": ANALOG_ENTRIES}
    analog = AirSettings(mode="analog")
    symbols = sum(burst.layout.symbols for burst in plan(ANALOG_ENTRIES, analog))
    client_samples = N * symbols * analog.numerology().symbol_samples
    peers = sionna_seconds(symbols, analog.active_subcarriers) if with_sionna else {}
    table = Table(title=f"Waveform uplink, N = {N}, clocks of 20 ppm, one core")
    headings = ["scheme", "channel", "k", "s a round", "M client-samples/s", "of real time (aim: 1)"]
    headings += [f"of Sionna, a channel for {name}" for name in peers]
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("scheme", "channel") else "right")
    with mock.patch.object(threads, "cores", return_value=1):
        for mode, k in sizes.items():
            for profile in ("indoor", "eva"):
                case = Case(mode, profile, k)
                case.run()
                rate = case.client_samples / statistics.median(case.run() for _ in range(TURNS))
                row = [mode, profile, f"{k:,}", f"{case.client_samples / rate:.2f}", f"{rate / 1e6:.0f}"]
                row.append(f"{rate / case.real_time_hz:.1f}")
                table.add_row(*row, *(f"{rate * seconds / client_samples:.1f}" for seconds in peers.values()))
    console.print(table)
    for name, seconds in peers.items():
        rate = client_samples / seconds / 1e6
        console.print(f"Sionna, TDL-A in the frequency domain, a channel for {name}: {rate:.0f} M client-samples/s")
    if peers:
        console.print("A channel for each symbol is what OFDMChannel computes (aim: 2 times as fast).")

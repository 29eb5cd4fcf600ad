# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the speed of the whole loopback: N clients, both channels, server and closed loop in one flowgraph."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

from oac_blocks.bench.flows.loopback import LoopbackSettings
from oac_blocks.bench.flows.loopback_trial import run_trial

ROUNDS = {1: 100, 2: 100, 4: 60, 8: 30}  # rounds for each number of clients
PLUTO_MSPS = 4.0  # rate that a stock Pluto sustains over USB


def main(console: Console) -> None:
    table = Table(title="Loopback: k = 21,880 votes, 20 ppm, EPA fading, 20 dB; start and calibration included")
    for heading in ("clients", "Msps", f"of {PLUTO_MSPS:.0f} Msps", "rounds/s", "processor ns a sample"):
        table.add_column(heading, justify="right")
    for clients, rounds in ROUNDS.items():
        begin = time.process_time()
        trial = run_trial(LoopbackSettings(clients=clients, rounds=rounds))
        rate = trial.samples_per_second / 1e6
        each = (time.process_time() - begin) / trial.samples * 1e9  # the time that other programs take does not count
        row = (f"{rate:.1f}", f"{rate / PLUTO_MSPS:.2f}", f"{trial.rounds_per_second:.1f}", f"{each:.0f}")
        table.add_row(str(clients), *row)
    console.print(table)

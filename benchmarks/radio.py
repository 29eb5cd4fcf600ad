# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure virtual Plutos: throughput of samples through libiio, cost of the air, and rounds on the wall clock."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import radio_rounds
from oac_blocks.radio.base import RadioConfig, StreamConfig
from oac_blocks.radio.pluto import PlutoRadio
from oac_blocks.radio.virtual.air.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos

_SECONDS = 5.0  # wall-clock seconds of each measurement


def main(console: Console) -> None:
    _throughput(console)
    _wall_clock(console)
    _rounds(console)


def _throughput(console: Console) -> None:
    """Measure the throughput in lock-step, where nothing is paced."""
    table = Table("radios", "block", "Msps each, silent", "Msps each, all loud", title="Virtual Plutos in lock-step")
    for radios, block in ((1, 16_384), (1, 65_536), (3, 16_384), (3, 65_536)):
        speeds = [_lock_step(radios, block, amplitude, blocks=2_000_000 // block) for amplitude in (0.0, 0.1)]
        table.add_row(str(radios), f"{block:,}", *(f"{speed / 1e6:.1f}" for speed in speeds))
    console.print(table)


def _lock_step(radios: int, block: int, amplitude: float, blocks: int) -> float:
    """Return the samples per second of each radio, sent and received, through PlutoRadio: +-20 ppm, noise, one path."""
    config, stream = RadioConfig(2.5e6, 2.4e9, 2.4e9, 50, -10), StreamConfig(block, 8, 4, 4)
    with VirtualPlutos(spread(radios, 1, ppm=20, snr_db=20), lock_step=True) as served:
        opened = [PlutoRadio(uri, config, timeout_seconds=120) for uri in served.uris]
        samples = np.full(block, amplitude, np.complex64)

        def run(radio: PlutoRadio) -> None:
            radio.start(stream)
            for _ in range(blocks):
                radio.receive(120.0)
                radio.transmit(samples, 120.0)

        begin = time.perf_counter()
        with ThreadPoolExecutor(radios) as pool:
            list(pool.map(run, opened))
        seconds = time.perf_counter() - begin
        for radio in opened:
            radio.close()
    return blocks * block / seconds


def _wall_clock(console: Console) -> None:
    """Run the air and each radio in its own process; each sends and receives all the time and counts lost blocks."""
    columns = ("Msps", "block x kernel buffers", "underflows", "overflows", "blocks of each radio")
    table = Table(*columns, title=f"Three virtual Plutos on the wall clock, {_SECONDS:g} s")
    for rate, block in ((0.6e6, 8192), (1e6, 16_384), (2.5e6, 32_768)):
        with _command("--radios", "3", "--ppm", "20", "--snr", "20", "--base-port", "0") as air:
            uris = [air.stdout.readline().split()[1] for _ in range(3)] if air.stdout else []
            clients = [_python(_CLIENT, uri, str(rate), str(block), str(_SECONDS)) for uri in uris]
            counts = np.array([[int(word) for word in client.communicate()[0].split()] for client in clients])
            air.terminate()
            air.communicate()
        under, over, _ = counts.sum(axis=0)
        row = (f"{rate / 1e6:g}", f"{block:,} x 8", str(under), str(over), ", ".join(map(str, counts[:, 2])))
        table.add_row(*row)
    console.print(table)


def _rounds(console: Console) -> None:
    """Run the calibration loop with two clients: +-20 ppm with a wobble of 1 ppm, 17 dB of SNR per sample."""
    columns = (
        "Msps",
        "frozen, s",
        "usable rounds",
        "RMS, samples",
        "largest",
        "gaps",
        "usable again, s",
        "air slower by",
    )
    table = Table(*columns, title="Rounds on the wall clock: oac-calibrate track on three virtual Plutos")
    for rate, frozen in ((0.6e6, 0.2), (1e6, 0.2), (2.5e6, 0.0), (2.5e6, 0.2), (2.5e6, 1.0)):
        played = radio_rounds.run(rate, 60, frozen_seconds=frozen)
        usable = sum(one.usable for one in played.rounds)
        offsets = played.settled_offsets()
        told = ["", ""] if not offsets.size else [f"{np.sqrt(np.mean(offsets**2)):.3f}", f"{np.abs(offsets).max():.3f}"]
        back = f"{played.recovery_seconds:.1f}" if played.thawed_seconds is not None else ""
        row = [f"{rate / 1e6:g}", f"{frozen:g}", f"{usable} of {len(played.rounds)}", *told]
        table.add_row(*row, str(played.result["gaps"]), back, f"{played.slowed_share:.0%}")
    console.print(table)


_CLIENT = """
import sys, time
import numpy as np
from oac_blocks.radio.base import RadioConfig, StreamConfig
from oac_blocks.radio.pluto import PlutoRadio
uri, rate, block, seconds = sys.argv[1], *map(float, sys.argv[2:])
samples = np.full(int(block), 0.1, np.complex64)
blocks = 0
with PlutoRadio(uri, RadioConfig(rate, 2.4e9, 2.4e9, 50, -10)) as radio:
    radio.start(StreamConfig(int(block), 8, 6, 4))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        radio.receive()
        radio.transmit(samples)
        blocks += 1
    print(radio.underflows, radio.overflows, blocks)
"""


def _python(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _command(*arguments: str) -> subprocess.Popen[str]:
    return _python("from oac_blocks.radio.virtual.cli import app; app()", *arguments)


if __name__ == "__main__":
    main(Console(width=110))

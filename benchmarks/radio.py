# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual Plutos: how fast samples go through libiio and back, what the air costs, and gaps on the wall clock."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from rich.console import Console
from rich.table import Table

from oac_blocks.radio.base import RadioConfig, StreamConfig
from oac_blocks.radio.pluto import PlutoRadio
from oac_blocks.radio.virtual.air_settings import spread
from oac_blocks.radio.virtual.server import VirtualPlutos

_SECONDS = 5.0  # on the wall clock, each


def main(console: Console) -> None:
    _throughput(console)
    _wall_clock(console)


def _throughput(console: Console) -> None:
    """In lock-step nothing is paced: as fast as it goes."""
    table = Table("radios", "block", "Msps each, silent", "Msps each, all loud", title="Virtual Plutos in lock-step")
    for radios, block in ((1, 16_384), (1, 65_536), (3, 16_384), (3, 65_536)):
        speeds = [_lock_step(radios, block, amplitude, blocks=2_000_000 // block) for amplitude in (0.0, 0.1)]
        table.add_row(str(radios), f"{block:,}", *(f"{speed / 1e6:.1f}" for speed in speeds))
    console.print(table)


def _lock_step(radios: int, block: int, amplitude: float, blocks: int) -> float:
    """Samples a second and radio, sent and received, through PlutoRadio: +-20 ppm, noise, one echo-free path."""
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
    columns = ("Msps", "block x kernel buffers", "underflows", "overflows", "slowed by the simulation, ms")
    table = Table(*columns, title=f"Three virtual Plutos on the wall clock, {_SECONDS:g} s, sender and receiver each")
    for rate, block in ((0.6e6, 8192), (1e6, 16_384), (2.5e6, 32_768)):
        config, stream = RadioConfig(rate, 2.4e9, 2.4e9, 50, -10), StreamConfig(block, 8, 6, 4)
        with VirtualPlutos(spread(3, 1, ppm=20, snr_db=20)) as served:
            opened = [PlutoRadio(uri, config) for uri in served.uris]
            samples = np.full(block, 0.1, np.complex64)

            def run(radio: PlutoRadio, stream: StreamConfig = stream, samples: np.ndarray = samples) -> None:
                radio.start(stream)
                end = time.perf_counter() + _SECONDS
                while time.perf_counter() < end:
                    radio.receive()
                    radio.transmit(samples)

            with ThreadPoolExecutor(3) as pool:
                list(pool.map(run, opened))
            under, over = (sum(getattr(radio, name) for radio in opened) for name in ("underflows", "overflows"))
            slowed = 1e3 * served.air.slowed_seconds
            for radio in opened:
                radio.close()
        table.add_row(f"{rate / 1e6:g}", f"{block:,} x 8", str(under), str(over), f"{slowed:.0f}")
    console.print(table)


if __name__ == "__main__":
    main(Console(width=110))

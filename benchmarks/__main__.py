# SPDX-License-Identifier: GPL-3.0-or-later
"""``make bench``: everything that is measured, in one run."""

from rich.console import Console

from benchmarks import air_share, calibration, channel, dsp_core, server_receiver, sync

console = Console(width=110)
for benchmark in (dsp_core, air_share, sync, server_receiver, channel, calibration):
    benchmark.main(console)

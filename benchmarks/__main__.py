# SPDX-License-Identifier: GPL-3.0-or-later
"""``make bench``: everything that is measured, in one run."""

from gnuradio import gr
from rich.console import Console

from benchmarks import air_share, calibration, channel, dsp_core, link, loopback, radio, streaming

console = Console(width=110)
gr.logging().set_default_level(gr.log_levels.warn)
for benchmark in (dsp_core, air_share, streaming, channel, loopback, calibration, link, radio):
    benchmark.main(console)

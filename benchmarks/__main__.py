# SPDX-License-Identifier: GPL-3.0-or-later
"""Run all benchmarks (``make bench``), or some of them (``make bench ARGS="link channel"``).

``flower`` is the link with Flower's simulation beside it. It installs Flower, so that it runs only on request.
"""

import sys

from gnuradio import gr
from rich.console import Console

from benchmarks import air_share, calibration, channel, dsp_core, link, loopback, radio, ray_engine, streaming, sweep

BENCHMARKS = {
    "dsp_core": dsp_core.main,
    "air_share": air_share.main,
    "streaming": streaming.main,
    "channel": channel.main,
    "loopback": loopback.main,
    "calibration": calibration.main,
    "link": link.main,
    "radio": radio.main,
    "sweep": sweep.main,
    "ray_engine": ray_engine.main,
}
ON_REQUEST = {"flower": lambda console: link.main(console, with_flower=True)}

names = sys.argv[1:] or list(BENCHMARKS)
if unknown := set(names) - {*BENCHMARKS, *ON_REQUEST}:
    sys.exit(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join((*BENCHMARKS, *ON_REQUEST))}")
console = Console(width=110)
gr.logging().set_default_level(gr.log_levels.warn)
for name in names:
    {**BENCHMARKS, **ON_REQUEST}[name](console)

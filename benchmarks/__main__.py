# SPDX-License-Identifier: GPL-3.0-or-later
"""Run all benchmarks (``make bench``), or some of them (``make bench ARGS="link channel"``).

The figures are printed, and kept as JSON under the name of the commit: ``make bench-compare A B`` compares two.
``flower`` is the link with Flower's simulation beside it, ``sionna`` the uplink with Sionna's channel beside it. They
install these programs, so that they run only on request.
"""

import sys

from gnuradio import gr

from benchmarks import (
    air_share,
    calibration,
    channel,
    dsp_core,
    link,
    loopback,
    radio,
    ray_engine,
    start,
    streaming,
    sweep,
    uplink,
)
from benchmarks.record.results import RecordingConsole, save
from benchmarks.scale import batched, growth, large_round, profile, selection

BENCHMARKS = {
    "start": start.main,
    "selection": selection.main,
    "growth": growth.main,
    "large_round": large_round.main,
    "profile": profile.main,
    "batched": batched.main,
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
    "uplink": uplink.main,
}
ON_REQUEST = {
    "flower": lambda console: link.main(console, with_flower=True),
    "sionna": lambda console: uplink.main(console, with_sionna=True),
}

names = sys.argv[1:] or list(BENCHMARKS)
if unknown := set(names) - {*BENCHMARKS, *ON_REQUEST}:
    sys.exit(f"unknown benchmark {', '.join(sorted(unknown))}; there are {', '.join((*BENCHMARKS, *ON_REQUEST))}")
console = RecordingConsole(width=110)
gr.logging().set_default_level(gr.log_levels.warn)
for name in names:
    {**BENCHMARKS, **ON_REQUEST}[name](console)
    kept = save({name: console.take_figures()})
    console.print(f"{name}: kept in {kept}")

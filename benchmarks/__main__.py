# SPDX-License-Identifier: GPL-3.0-or-later
"""``make bench``: everything that is measured, in one run."""

from rich.console import Console

from benchmarks import dsp_core

console = Console(width=110)
dsp_core.main(console)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A trial of the loopback as a person wants to see it: a bar while it runs, a table at its end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator

from gnuradio import gr
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from oac_blocks.flows.loopback import LoopbackSettings
from oac_blocks.flows.loopback_trial import Trial, run_trial


def run_with_progress(settings: LoopbackSettings) -> Trial:
    gr.logging().set_default_level(gr.log_levels.warn)
    with _quiet_stdout(), Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("rounds", total=settings.rounds)
        return run_trial(settings, lambda done: progress.update(task, completed=done))


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """GNU Radio logs to the process's standard output, which belongs to the result: send it to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def table(trial: Trial) -> str:
    rows = {
        "rounds": f"{trial.rounds}, of which {trial.payload_rounds} carried votes",
        "clients": ", ".join(f"{count} {state}" for state, count in Counter(trial.states).items()),
        "vote error rate": f"{trial.error_rate:.4f} +- {trial.standard_error:.4f}",
        "by the closed form": _or_dash(trial.expected_error_rate, "{:.4f}"),
        "apart by": _or_dash(trial.standard_errors_off, "{:+.1f} standard errors"),
        "arrival offsets": f"{trial.offset_rms_samples:.3f} samples RMS, {trial.offset_max_samples:.3f} at most",
        "triggers missed": str(trial.triggers_missed),
        "slips": str(trial.slips),
        "speed": f"{trial.rounds_per_second:.1f} rounds/s, {trial.samples_per_second / 1e6:.1f} Msps",
        "decisions": trial.decisions[:16],
    }
    grid = Table(show_header=False, box=None)
    for name, value in rows.items():
        grid.add_row(name, value)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(grid)
    return capture.get().rstrip()


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)

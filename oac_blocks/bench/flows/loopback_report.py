# SPDX-License-Identifier: GPL-3.0-or-later
"""A trial of the loopback as a person wants to see it: a bar while it runs, a table and a verdict at its end."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator

from gnuradio import gr
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from oac_blocks.bench.flows.loopback import LoopbackSettings
from oac_blocks.bench.flows.loopback_trial import Trial, run_trial
from oac_blocks.record.recorder import Recorder

_FAR_OFF = 3.0  # standard errors; chance alone puts one trial in 370 farther off than that


def run_with_progress(settings: LoopbackSettings, recorder: Recorder | None = None) -> Trial:
    """Run a trial. Say on standard error what is run, and show a progress bar there if it is a terminal."""
    gr.logging().set_default_level(gr.log_levels.warn)
    console = Console(stderr=True, highlight=False)
    console.print(f"{settings.rounds} rounds of {settings.votes:,} votes, clients: {settings.clients}", soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with _quiet_stdout(), bar:
        task = bar.add_task("rounds", total=settings.rounds)
        return run_trial(settings, lambda done: bar.update(task, completed=done), recorder)


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
    """Return the result of a trial as a table, with the verdict below it."""
    rows = {
        "rounds": f"{trial.rounds}, of which {trial.payload_rounds} carried votes",
        "clients": ", ".join(f"{count} {state}" for state, count in Counter(trial.states).items()),
        "vote error rate, measured": f"{trial.error_rate:.4f}",
        "standard error": f"{trial.standard_error:.4f}",
        "by the closed form": _or_dash(trial.expected_error_rate, "{:.4f}"),
        "difference": _or_dash(trial.standard_errors_off, "{:+.1f} standard errors"),
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
    return f"{capture.get().rstrip()}\n{verdict(trial)}"


def verdict(trial: Trial) -> str:
    """Return a sentence that says whether the measured error rate is the one that the closed form gives."""
    if not trial.payload_rounds:
        return "No round carried votes: the clients were not aligned in time. Run more rounds."
    measured, expected, off = trial.error_rate, trial.expected_error_rate, trial.standard_errors_off
    if expected is None:
        return f"{measured:.2%} of the votes are wrong. The closed form needs Rayleigh fading and noise."
    if off is None or math.isnan(off):
        return (
            f"{measured:.2%} of the votes are wrong, and {expected:.2%} by the closed form. Run more rounds to compare."
        )
    if abs(off) <= _FAR_OFF:
        return (
            f"{measured:.2%} of the votes are wrong, as the closed form says ({expected:.2%}): that is what noise and "
            "fading do at this SNR."
        )
    found = f"{measured:.2%} of the votes are wrong, {'more' if off > 0 else 'fewer'} than noise and fading explain"
    return f"{found} ({expected:.2%} by the closed form)."


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the progress of a run on stderr: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from fl_app.core.number_texts import clock, figure_texts, percent
from fl_app.runs.metrics import RoundFigures

FIGURES_COLUMNS = 68  # columns that a line takes besides title and bar
SHORT_NAMES = {"accuracy": "acc"}  # a bar has room for one figure of merit
ALL_RUNS_COLUMNS = 12  # columns of the remaining time of all runs


class _Eta(ProgressColumn):
    """Show the time left by the mean round; rich's own estimate ignores earlier rounds, such as those that evaluate."""

    def render(self, task: Task) -> Text:
        return Text(f"ETA {task.fields['eta']}", style="cyan")


class Schedule:
    """Estimate the remaining time of several runs, one after the other."""

    def __init__(self, rounds: Sequence[int]) -> None:
        """Take the number of rounds that each run has left."""
        self._left = list(rounds)
        self._seconds, self._rounds = 0.0, 0
        self._run = -1

    def next_run(self) -> None:
        self._run += 1

    def timed(self, seconds: float, rounds_left: int) -> float:
        """Add a round of this duration, and return the seconds that all runs still take."""
        self._seconds, self._rounds = self._seconds + seconds, self._rounds + 1
        return self._seconds / self._rounds * (rounds_left + sum(self._left[self._run + 1 :]))


class RunProgress:
    """Show each round. Use it as a context manager, and pass `show` to the training loop.

    The remaining time is estimated without the first round, which waits for data, processes and radios.
    """

    def __init__(
        self, console: Console, rounds: int, rounds_done: int, title: str, schedule: Schedule | None = None
    ) -> None:
        self._console, self._rounds, self._title = console, rounds, title
        self._pace, self._schedule = Schedule([]), schedule
        self._round_began: float | None = None
        self._figures: dict[str, str] = {}
        self._dropped = 0
        self._bar: Progress | None = None
        if console.is_terminal:
            # The figures matter most, so the bar takes the room that they leave: rich cuts what does not fit.
            left = console.width - FIGURES_COLUMNS - len(title) - (ALL_RUNS_COLUMNS if schedule else 0)
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=min(30, max(4, left))),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                _Eta(),
                console=console,
            )
            self._task = self._bar.add_task(title, total=rounds, completed=rounds_done, figures="starting", eta="-")

    def show(self, row: RoundFigures) -> None:
        """Show one more round."""
        done = row.round + 1
        self._dropped += row.dropped_clients
        if row.is_tested:
            self._figures = figure_texts(row.test_accuracy, row.test_figures)
        eta = self._eta(self._rounds - done)
        loss = "-" if row.loss is None else f"{row.loss:.3f}"
        dropped = f"  dropped {self._dropped}" if self._dropped else ""
        if self._bar is not None:
            name, value = next(iter(self._figures.items()), ("accuracy", "-"))
            figures = (
                f"{SHORT_NAMES.get(name, name)} [bold]{value}[/]  loss {loss}  AoU {row.mean_aou:.1f}  "
                f"vote err {percent(row.vote_error_rate)}{dropped}"
            )
            self._bar.update(self._task, completed=done, figures=figures, eta=eta)
        elif row.is_tested or row.dropped_clients:
            title = f"{self._title}: " if self._schedule is not None else ""
            tested = "".join(f"{name} {value:>6}  " for name, value in self._figures.items())
            self._console.print(
                f"{title}round {done:>4}/{self._rounds}  {tested}loss {loss}  "
                f"AoU {row.mean_aou:.1f} (max {row.max_aou})  vote errors {percent(row.vote_error_rate)}{dropped}  "
                f"ETA {eta}",
                highlight=False,
                soft_wrap=True,
            )

    def _eta(self, rounds_left: int) -> str:
        now, began = time.perf_counter(), self._round_began
        self._round_began = now
        if began is None:
            return "-"
        eta = clock(self._pace.timed(now - began, rounds_left))
        if self._schedule is not None:
            eta += f", all {clock(self._schedule.timed(now - began, rounds_left))}"
        return eta

    def __enter__(self) -> RunProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

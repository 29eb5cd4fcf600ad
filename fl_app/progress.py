# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as it goes: a live bar on a terminal, plain lines elsewhere. Both go to stderr."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from fl_app.metrics import RoundFigures

FIGURES_COLUMNS = 68  # what a line takes besides title and bar


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class _Eta(ProgressColumn):
    """What the mean round says of the rounds to come: rich's own estimate forgets the rounds that evaluate."""

    def render(self, task: Task) -> Text:
        return Text(f"ETA {task.fields['eta']}", style="cyan")


class RunProgress:
    """Shows each round. Use as a context; pass `show` to the training loop."""

    def __init__(self, console: Console, rounds: int, rounds_done: int, title: str) -> None:
        self._console, self._rounds, self._first = console, rounds, rounds_done
        self._started = time.perf_counter()
        self._accuracy: float | None = None
        self._dropped = 0
        self._bar: Progress | None = None
        if console.is_terminal:
            # The figures are what people look at, so the bar takes what they leave: rich cuts what does not fit.
            left = console.width - FIGURES_COLUMNS - len(title)
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
        """Take one more round into account."""
        done = row.round + 1
        self._dropped += row.dropped_clients
        if row.test_accuracy is not None:
            self._accuracy = row.test_accuracy
        elapsed = time.perf_counter() - self._started
        eta = clock(elapsed / (done - self._first) * (self._rounds - done))
        loss = "-" if row.loss is None else f"{row.loss:.3f}"
        dropped = f"  dropped {self._dropped}" if self._dropped else ""
        if self._bar is not None:
            figures = (
                f"acc [bold]{percent(self._accuracy)}[/]  loss {loss}  AoU {row.mean_aou:.1f}  "
                f"vote err {percent(row.vote_error_rate)}{dropped}"
            )
            self._bar.update(self._task, completed=done, figures=figures, eta=eta)
        elif row.test_accuracy is not None or row.dropped_clients:
            self._console.print(
                f"round {done:>4}/{self._rounds}  accuracy {percent(self._accuracy):>6}  loss {loss}  "
                f"AoU {row.mean_aou:.1f} (max {row.max_aou})  vote errors {percent(row.vote_error_rate)}{dropped}  "
                f"ETA {eta}",
                highlight=False,
                soft_wrap=True,
            )

    def __enter__(self) -> RunProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

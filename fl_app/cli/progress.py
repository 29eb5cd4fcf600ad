# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the progress of a run on stderr: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from fl_app.core.number_texts import clock, figure_texts, percent
from fl_app.runs.metrics import RoundFigures

FIGURES_COLUMNS = 68  # columns that a line takes besides title and bar
SHORT_NAMES = {"accuracy": "acc"}  # a bar has room for one figure of merit


class _Eta(ProgressColumn):
    """Show the time left by the mean round; rich's own estimate ignores earlier rounds, such as those that evaluate."""

    def render(self, task: Task) -> Text:
        return Text(f"ETA {task.fields['eta']}", style="cyan")


def live_bars(console: Console, title_columns: int) -> Progress:
    """Return bars with a title, the rounds, `figures` and `eta`.

    The figures matter most, so a bar takes the room that they leave: rich cuts what does not fit.
    """
    left = console.width - FIGURES_COLUMNS - title_columns
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=min(30, max(4, left))),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        _Eta(),
        console=console,
    )


class RunState:
    """Follow one run: its latest figures and the time that it still takes.

    The time is estimated without the first round, which waits for data, processes and radios.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds, self.done = rounds, 0
        self.eta = "-"
        self._first: tuple[float, int] | None = None  # time and number of rounds after the first round that was seen
        self._figures: dict[str, str] = {}  # the task's figures of merit, as texts
        self._dropped = 0

    def add(self, row: RoundFigures, now: float) -> None:
        """Take the figures of one more round, at the time `now` in seconds."""
        self._row, self.done = row, row.round + 1
        self._dropped += row.dropped_clients
        if row.is_tested:
            self._figures = figure_texts(row.test_accuracy, row.test_figures)
        if self._first is None:
            self._first = now, self.done
        else:
            began, rounds = self._first
            self.eta = clock((now - began) / (self.done - rounds) * (self.rounds - self.done))

    @property
    def has_news(self) -> bool:
        """Say whether the latest round is worth a line in a log."""
        return self._row.is_tested or bool(self._row.dropped_clients)

    @property
    def bar_text(self) -> str:
        row, (name, value) = self._row, next(iter(self._figures.items()), ("accuracy", "-"))
        return (
            f"{SHORT_NAMES.get(name, name)} [bold]{value}[/]  loss {self._loss}  AoU {row.mean_aou:.1f}  "
            f"vote err {percent(row.vote_error_rate)}{self._dropped_text}"
        )

    @property
    def line(self) -> str:
        row = self._row
        tested = "".join(f"{name} {value:>6}  " for name, value in self._figures.items())
        return (
            f"round {self.done:>4}/{self.rounds}  {tested}loss {self._loss}  "
            f"AoU {row.mean_aou:.1f} (max {row.max_aou})  vote errors {percent(row.vote_error_rate)}{self._ties_text}"
            f"{self._dropped_text}  ETA {self.eta}"
        )

    @property
    def _loss(self) -> str:
        return "-" if self._row.loss is None else f"{self._row.loss:.3f}"

    @property
    def _ties_text(self) -> str:
        return "" if self._row.tie_share is None else f"  ties {percent(self._row.tie_share)}"

    @property
    def _dropped_text(self) -> str:
        return f"  dropped {self._dropped}" if self._dropped else ""


class RunProgress:
    """Show each round. Use it as a context manager, and pass `show` to the training loop."""

    def __init__(self, console: Console, rounds: int, rounds_done: int, title: str) -> None:
        self._console, self._state = console, RunState(rounds)
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = live_bars(console, len(title))
            self._task = self._bar.add_task(title, total=rounds, completed=rounds_done, figures="starting", eta="-")

    def show(self, row: RoundFigures) -> None:
        """Show one more round."""
        state = self._state
        state.add(row, time.perf_counter())
        if self._bar is not None:
            self._bar.update(self._task, completed=state.done, figures=state.bar_text, eta=state.eta)
        elif state.has_news:
            self._console.print(state.line, highlight=False, soft_wrap=True)

    def __enter__(self) -> RunProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

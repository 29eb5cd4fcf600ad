# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the progress of many runs side by side on stderr: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID

from fl_app.cli.progress import RunState, live_bars
from fl_app.core.number_texts import clock, percent
from fl_app.engine.runners import JobEvent
from fl_app.runs.sweeps.plan import SweepRun

TITLE_COLUMNS = 44  # columns of a run's title on a terminal; a longer one is cut
ALL_RUNS_COLUMNS = 12  # columns of the remaining time of all runs


class Schedule:
    """Estimate the remaining time of many runs from the rounds that all of them play in a second.

    The estimate contains what the runs need besides their rounds, and how many are played side by side. It begins with
    the first round, which waits for data and processes.
    """

    def __init__(self, rounds_left: Sequence[int]) -> None:
        """Take the number of rounds that each run has left."""
        self._left = list(rounds_left)
        self._first: tuple[float, int] | None = None  # time and rounds left after the first round

    @property
    def rounds_left(self) -> int:
        return sum(self._left)

    def update(self, run: int, rounds_left: int, now: float) -> float | None:
        """Note what a run has left at the time `now`, and return the seconds that all runs still take."""
        self._left[run] = rounds_left
        if self._first is None:
            self._first = now, self.rounds_left
        began, left = self._first
        played = left - self.rounds_left
        return (now - began) / played * self.rounds_left if played > 0 else None


class SweepProgress:
    """Show what happens to each run. Use it as a context manager, and pass `show` to the sweep."""

    def __init__(self, console: Console, runs: Sequence[SweepRun], titles: Sequence[str]) -> None:
        self._console, self._runs, self._titles = console, runs, titles
        self._done = [run.rounds_done for run in runs]
        self._schedule = Schedule([run.settings.run.rounds - done for run, done in zip(runs, self._done, strict=True)])
        self._states: dict[int, RunState] = {}
        self._eta: float | None = None
        self._finished = sum(run.is_finished for run in runs)
        self._failed = 0
        self._bars: Progress | None = None
        self._rows: dict[int, TaskID] = {}
        if console.is_terminal:
            columns = min(TITLE_COLUMNS, max(map(len, titles), default=0)) + ALL_RUNS_COLUMNS
            self._bars = live_bars(console, columns)
            self._all = self._bars.add_task("", total=sum(run.settings.run.rounds for run in runs), figures="", eta="-")

    def show(self, event: JobEvent) -> None:
        """Show what happened to a run."""
        number = event.job
        if event.kind == "begun":
            self._begin(number)
        elif event.kind == "told":
            row, now = event.content, time.perf_counter()
            state = self._states[number]
            state.add(row, now)
            self._eta = self._schedule.update(number, state.rounds - state.done, now)
            self._show_round(number)
        elif event.kind == "failed":
            self._failed += 1
            self._schedule.update(number, 0, time.perf_counter())
            self._print(f"{self._title(number)} failed: {event.content.strip().splitlines()[-1]}")
        elif event.kind == "done":
            self._finished += 1
            if self._bars is not None:
                self._print(f"{self._title(number)}: accuracy {percent(event.content['test_accuracy'])}")
        if event.kind in ("failed", "done", "stopped") and self._bars is not None and number in self._rows:
            self._bars.remove_task(self._rows.pop(number))
        self._show_all()

    def _begin(self, number: int) -> None:
        run, done = self._runs[number], self._done[number]
        rounds = run.settings.run.rounds
        self._states[number] = RunState(rounds)
        if self._bars is None:
            self._print(f"run {number + 1} of {len(self._runs)}")
            on = f"; going on after round {done}" if done else ""
            self._print(f"{run.folder.path}: {run.settings.headline()}{on}")
            return
        title = self._title(number)
        cut = title if len(title) <= TITLE_COLUMNS else title[: TITLE_COLUMNS - 1] + "…"
        self._rows[number] = self._bars.add_task(escape(cut), total=rounds, completed=done, figures="starting", eta="-")

    def _show_round(self, number: int) -> None:
        state = self._states[number]
        if self._bars is not None:
            self._bars.update(self._rows[number], completed=state.done, figures=state.bar_text, eta=state.eta)
        elif state.has_news:
            self._print(f"{self._title(number)}: {state.line}, all {self._eta_text()}")

    def _show_all(self) -> None:
        if self._bars is None:
            return
        begun = self._finished + self._failed + len(self._rows)
        failed = f", {self._failed} failed" if self._failed else ""
        self._bars.update(
            self._all,
            description=f"run {begun} of {len(self._runs)}",
            completed=sum(run.settings.run.rounds for run in self._runs) - self._schedule.rounds_left,
            figures=f"{self._finished} finished{failed}",
            eta=self._eta_text(),
        )

    def _title(self, number: int) -> str:
        return f"{number + 1}/{len(self._runs)} {self._titles[number]}"

    def _eta_text(self) -> str:
        return "-" if self._eta is None else clock(self._eta)

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> SweepProgress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

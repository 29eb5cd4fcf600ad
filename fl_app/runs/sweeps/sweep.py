# SPDX-License-Identifier: GPL-3.0-or-later
"""Play every combination of some settings with every seed, side by side, and make one table and one figure of it.

    result = sweep("quickstart", {"selection.k_m_ratio": [0, 0.5, 1], "air.snr_db": [0, 20]}, seeds=[1, 2, 3])

A second call with the same folder repeats no finished run, and resumes a run that was stopped or killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fl_app.config import ConfigError, Settings, load_settings
from fl_app.engine.runners import JobControl, JobEvent, JobStopped, Runner, make_runner
from fl_app.pictures import FORMATS
from fl_app.runs.run_folder import RUNS
from fl_app.runs.sweeps.outcome import outcome_of
from fl_app.runs.sweeps.plan import SweepRun, plan, refuse_other_settings

OnEvent = Callable[[JobEvent], None]


@dataclass(frozen=True)
class SweepResult:
    """Hold the outcome of a sweep.

    Attributes
    ----------
    folder
        Holds the runs and sweep.html, .json, .csv, .md, .tex, .png, .svg, .pdf, sweep-air.png, .svg and .pdf.
    outcome
        The content of sweep.json.
    is_finished
        False if the sweep was stopped; the next call goes on.
    """

    folder: Path
    outcome: dict[str, Any]
    is_finished: bool

    @property
    def points(self) -> list[dict[str, Any]]:
        """One for each combination: its `values`, and for each figure its `mean`, its `std` and `each` seed's value."""
        return list(self.outcome["points"])

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The result of each finished run."""
        return list(self.outcome["runs"])

    @property
    def failed(self) -> list[dict[str, str]]:
        """The runs that failed: `run` and `reason`. The next call tries them again."""
        return list(self.outcome["failed"])


def sweep(
    config: Settings | str | Path | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: Sequence[int] = (1, 2, 3),
    folder: Path | str | None = None,
    jobs: int | None = None,
    on_event: OnEvent = lambda _event: None,
    should_stop: Callable[[], bool] = lambda: False,
    runner: Runner | None = None,
) -> SweepResult:
    """Play every combination of the varied settings with every seed, and write one table, one figure and one page.

    Parameters
    ----------
    config
        What the runs share: settings, a TOML file, or the name of a config that comes with gr-oac.
    vary
        For each "section.key" the values that it takes.
    seeds
        Each combination is played with each of these seeds.
    folder
        Folder of the sweep; by default runs/sweep-CONFIG.
    jobs
        Number of runs that are played side by side, each in a process of its own; by default the number of cores.
        0 plays one after the other in this process.
    on_event
        Called with what happens to a run; `job` is its index in the order of the plan.
    should_stop
        True ends the sweep: each run finishes its round and saves.
    runner
        Another place to play the runs.

    Raises
    ------
    ConfigError
        If a setting is wrong.
    RunError
        If the folder holds a run with other settings.

    Examples
    --------
    >>> import tempfile
    >>> changes = ["run.rounds=1", "data.limit=40", "data.test_limit=20", "clients.H=1", "clients.batch_size=4"]
    >>> settings = oac.load_settings("quickstart", changes)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = oac.sweep(settings, {"air.snr_db": [0.0, 20.0]}, seeds=[1], folder=folder, jobs=0)
    ...     [point["values"] for point in result.points]
    [{'air.snr_db': 0.0}, {'air.snr_db': 20.0}]
    """
    settings = config if isinstance(config, Settings) else load_settings(config)
    name = "sweep" if isinstance(config, Settings) else f"sweep-{Path(config or 'quickstart').stem}"
    path = Path(folder) if folder is not None else RUNS / name
    runs = plan(settings, vary or {}, seeds, path)
    played = play(runs, runner or make_runner(jobs_for(runs, jobs)), on_event, should_stop)
    return conclude(runs, played, path)


@dataclass(frozen=True)
class SweepEnd:
    """How the runs of a sweep ended."""

    reasons: dict[int, str]  # why a run failed, by its index
    is_finished: bool  # False if the sweep was stopped


def play(
    runs: Sequence[SweepRun], runner: Runner, on_event: OnEvent, should_stop: Callable[[], bool] = lambda: False
) -> SweepEnd:
    """Play the runs that are not finished."""
    refuse_other_settings(runs)
    left = [number for number, run in enumerate(runs) if not run.is_finished]
    reasons: dict[int, str] = {}
    done = 0

    def take(event: JobEvent) -> None:
        nonlocal done
        number = left[event.job]
        if event.kind == "failed":
            reasons[number] = event.content
        done += event.kind in ("done", "failed")
        on_event(replace(event, job=number))

    if left:
        runner.map(play_run, [runs[number] for number in left], take, should_stop)
    return SweepEnd(reasons, done == len(left))


def play_run(run: SweepRun, control: JobControl) -> dict[str, Any]:
    """Play one run from its checkpoint, or from the beginning, to its end, and write its report."""
    from fl_app.runs.report import write_report
    from fl_app.runs.train import train

    result = train(run.settings, run.folder, control.tell, control.should_stop, before_keeping=control.begin_keeping)
    if result is None:
        raise JobStopped
    with run.folder.writing("write the report"):
        write_report(run.folder)
    return result


def conclude(runs: Sequence[SweepRun], played: SweepEnd, path: Path, formats: Sequence[str] = FORMATS) -> SweepResult:
    """Write the table, the figure and the page of the finished runs; a stopped sweep writes none."""
    failed = [{"run": runs[number].name, "reason": reason} for number, reason in sorted(played.reasons.items())]
    outcome = outcome_of(runs, failed, path)
    if played.is_finished and outcome["runs"]:
        from fl_app.runs.sweeps.files import write_sweep  # it needs matplotlib, which takes a while to import

        write_sweep(outcome, runs, path, formats)
    return SweepResult(path, outcome, played.is_finished)


def jobs_for(runs: Sequence[SweepRun], wanted: int | None) -> int:
    """Return the number of processes: the wanted one, or one for each core, if the runs can be played side by side."""
    if share_radios(runs):
        if (wanted or 0) > 1:
            raise ConfigError(
                f"--jobs {wanted}: the runs share the radios of [radios], so only one can be played at a time"
            )
        return 0
    threads = max(run.settings.run.threads for run in runs)
    return max(1, len(os.sched_getaffinity(0)) // threads) if wanted is None else wanted


def share_radios(runs: Sequence[SweepRun]) -> bool:
    """Say whether runs use real radios, so that they must be played one after the other."""
    return any(run.settings.air.name == "pluto" for run in runs)

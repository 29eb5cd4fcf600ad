# SPDX-License-Identifier: GPL-3.0-or-later
"""Visit after visit until the time is over: start a bench, disturb it, check what must hold, take it down."""

from __future__ import annotations

import itertools
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fl_app.runs.run_folder import RunFolder
from tests.soak import invariants
from tests.soak.benches import BENCHES, RECOVER_ROUNDS, Bench, settings_for
from tests.soak.report import Finding, Report
from tests.soak.schedule import Fault, Visit, visits
from tests.soak.stage import PROGRAMS, Stage, Violation

SETTLE_SECONDS = 30.0  # for processes and files that are on their way out


class Soak:
    """One soak: its clock, its report, and the undisturbed runs that others are compared with."""

    def __init__(self, seed: int, seconds: float, keep: Path, tell: Callable[[str], None]) -> None:
        self.seed, self.keep, self.tell = seed, keep, tell
        self.report = Report(seed)
        self._started = time.monotonic()
        self._deadline = self._started + seconds
        self._references = Path(tempfile.gettempdir()) / f"soak-ref-{secrets.token_hex(4)}"

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def run(self, scenarios: tuple[str, ...], only: int | None = None) -> None:
        """Make the visits of the seed until the time is over, or one of them alone."""
        planned: Iterator[Visit] = visits(self.seed, scenarios)
        if only is not None:
            planned = itertools.islice(planned, only, only + 1)
        try:
            self._references.mkdir(mode=0o700)
            for visit in planned:
                if self.is_over:
                    break
                self._visit(visit, scenarios)
        finally:
            self.report.seconds = self.elapsed
            shutil.rmtree(self._references, ignore_errors=True)

    def _visit(self, visit: Visit, scenarios: tuple[str, ...]) -> None:
        self.tell(f"{self.elapsed:6.0f} s  visit {visit.number}: {visit.scenario}, {visit.variant}")
        self.report.visits[visit.scenario] += 1
        only = f" --scenario {' --scenario '.join(scenarios)}" if scenarios != tuple(BENCHES) else ""
        repeat = f"python -m tests.soak --seed {self.seed} --visit {visit.number} --minutes 15{only}"
        with Stage() as stage:
            bench = BENCHES[visit.scenario](stage, visit)
            what = "start"
            before = len(self.report.findings)

            def found(sentences: list[str]) -> None:
                for sentence in sentences:
                    finding = Finding(round(self.elapsed, 1), visit.number, visit.scenario, what, sentence, repeat,
                                      str(self.keep / f"visit-{visit.number}"))  # fmt: skip
                    self.report.findings.append(finding)
                    self.tell(f"{self.elapsed:6.0f} s    VIOLATION after {what}: {sentence}")

            try:
                reference = self._reference(bench) if bench.exact else None
                bench.start()
                bench.wait_for_rounds(RECOVER_ROUNDS, None)
                stage.mark_warm()
                for fault in visit.faults:
                    if self.is_over:
                        break
                    if not self._possible(fault, stage):
                        continue
                    bench.wait_for_rounds(len(bench.rows()) + fault.after_rounds, None)
                    if bench.is_finished:
                        self.report.skipped["the run was over before the fault"] += 1
                        break
                    what = str(fault)
                    self._inject(bench, fault)
                    found(self._check(bench, reference))
                    stage.mark_warm()
                what = "end of the run"
                bench.finish()
                found(self._check_end(bench, reference))
            except Violation as violation:
                found([str(violation)])
            finally:
                bench.close()
                self.report.rounds += len(bench.rows())
                self.report.remember(visit.scenario, stage.memory.values())
                if len(self.report.findings) > before:
                    _keep(stage, self.keep / f"visit-{visit.number}")

    def _possible(self, fault: Fault, stage: Stage) -> bool:
        if fault.kind == "fill" and stage.disk_fault:
            self.report.skipped[f"fill disk: {stage.disk_fault}"] += 1
            return False
        return True

    def _inject(self, bench: Bench, fault: Fault) -> None:
        self.tell(f"{self.elapsed:6.0f} s    round {len(bench.rows())}: {fault}")
        self.report.injected(bench.visit, fault)
        before = len(bench.rows())
        bench.inject(fault)
        bench.wait_for_rounds(before + RECOVER_ROUNDS, fault)

    def _check(self, bench: Bench, reference: RunFolder | None) -> list[str]:
        """Return what does not hold of a bench that runs."""
        checkpoint = bench.run.latest()
        rows = bench.rows()
        found = self._counted("every round once", invariants.rounds_once(rows))
        found += self._counted("checkpoint fits", invariants.checkpoint_fits(checkpoint, rows))
        if reference is not None:
            found += self._counted("figures of an undisturbed run", invariants.same_rounds(rows, reference.rows()))
        found += self._counted("memory flat", invariants.memory_flat(bench.stage.memory.values()))
        return found + self._counted(
            "one process of each", _settled(lambda: invariants.one_of_each(bench.stage.ours()))
        )

    def _check_end(self, bench: Bench, reference: RunFolder | None) -> list[str]:
        """Return what does not hold of a bench that has ended."""
        stage = bench.stage
        bench.close()
        found = self._counted("no process left", _settled(lambda: invariants.nothing_runs(stage.ours())))
        folders = [stage.temporary, *([stage.folder / "s"] if (stage.folder / "s").exists() else [])]
        found += self._counted("no file left", invariants.nothing_lies_about(folders))
        found += self._counted("no traceback", invariants.no_traceback(stage.all_logs()))
        found += self._check(bench, reference)
        checkpoint, rows = bench.run.latest(), bench.rows()
        if checkpoint is None or checkpoint.rounds_done != len(rows):
            done = 0 if checkpoint is None else checkpoint.rounds_done
            found.append(f"the run ended after {len(rows)} rounds, its last checkpoint has {done}")
        if reference is not None and checkpoint is not None:
            theirs = reference.latest()
            assert theirs is not None
            model = invariants.same_model(checkpoint.arrays, theirs.arrays)
            found += self._counted("model of an undisturbed run", model)
        return found

    def _counted(self, name: str, sentences: list[str]) -> list[str]:
        self.report.checks[name] += 1
        return sentences

    def _reference(self, bench: Bench) -> RunFolder:
        """The run of these settings that nobody disturbs, made once."""
        folder = RunFolder(self._references / bench.visit.variant)
        if not folder.result.exists():
            config = self._references / f"{bench.visit.variant}.toml"
            config.write_text(settings_for(bench.visit).toml())
            command = [PROGRAMS / "fl_app", "train", config, "--out", folder.path]
            subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=600)
        return folder


def _settled(check: Callable[[], list[str]]) -> list[str]:
    """What a check still finds when everything on its way has had its time."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (found := check()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _keep(stage: Stage, folder: Path) -> None:
    """Copy what helps to find the cause: logs, metrics, the config."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in [*stage.log_files(), *stage.disk.glob("run/*.jsonl"), *stage.disk.glob("run/*.toml")]:
        shutil.copy(file, folder / f"{file.parent.parent.name}-{file.name}")

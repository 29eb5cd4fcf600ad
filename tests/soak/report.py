# SPDX-License-Identifier: GPL-3.0-or-later
"""What a soak did and found, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.soak.invariants import GROWTH_MB, Memory
from tests.soak.schedule import Fault, Visit


@dataclass(frozen=True)
class Finding:
    """One violation, and how to see it again."""

    seconds: float  # since the soak began
    visit: int
    scenario: str
    fault: str
    what: str
    repeat: str
    logs: str = ""


@dataclass
class Report:
    """Counts of a soak."""

    seed: int
    faults: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # scenario, kind, target
    checks: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    visits: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)  # by scenario and role
    rounds: int = 0
    seconds: float = 0.0

    def injected(self, visit: Visit, fault: Fault) -> None:
        self.faults[visit.scenario, fault.kind, fault.target] += 1

    def remember(self, scenario: str, processes: Iterable[Memory]) -> None:
        for one in processes:
            worst = self.memory.setdefault(
                f"{scenario}: {one.role}", {"most_mb": 0.0, "growth_mb": 0.0, "processes": 0}
            )
            worst["processes"] += 1
            worst["most_mb"] = max(worst["most_mb"], one.most_mb)
            if one.warm_mb is not None:
                worst["growth_mb"] = max(worst["growth_mb"], one.most_after_warm_mb - one.warm_mb)

    def as_json(self) -> dict[str, Any]:
        by_kind: Counter[str] = Counter()
        for (_, kind, _), count in self.faults.items():
            by_kind[kind] += count
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "visits": dict(self.visits),
            "rounds": self.rounds,
            "faults": {" ".join(key): count for key, count in sorted(self.faults.items())},
            "faults_by_kind": dict(by_kind),
            "checks": dict(self.checks),
            "skipped": dict(self.skipped),
            "violations": [vars(finding) for finding in self.findings],
            "memory": {
                role: {key: round(value, 1) for key, value in figures.items()} for role, figures in self.memory.items()
            },
        }

    def show(self, console: Console) -> None:
        """Print the tables of faults, checks and memory, and each violation with its command."""
        done = ", ".join(f"{count} {name}" for name, count in sorted(self.visits.items()))
        console.print(f"seed {self.seed}: {self.seconds / 60:.1f} min, {self.rounds} rounds; visits: {done or 'none'}")
        faults = Table("scenario", "fault", "target", "times", title="faults", title_justify="left")
        for (scenario, kind, target), count in sorted(self.faults.items()):
            faults.add_row(scenario, kind, target, str(count))
        checks = Table("check", "times", title="checks", title_justify="left")
        for name, count in sorted(self.checks.items()):
            checks.add_row(name, str(count))
        memory = Table("process", "how many", "most, MB", f"growth after warm-up, MB (bound {GROWTH_MB:.0f})",
                       title="resident memory", title_justify="left")  # fmt: skip
        for role, figures in sorted(self.memory.items()):
            growth = f"{figures['growth_mb']:.0f}"
            memory.add_row(role, f"{figures['processes']:.0f}", f"{figures['most_mb']:.0f}", growth)
        for table in (faults, checks, memory):
            if table.row_count:
                console.print(table)
        for reason, count in self.skipped.items():
            console.print(f"skipped {count} times: {reason}", highlight=False)
        console.print(f"{sum(self.faults.values())} faults, {len(self.findings)} violations", highlight=False)
        for one in self.findings:
            console.print(
                f"- {one.seconds:.0f} s, visit {one.visit} ({one.scenario}), {one.fault}: {one.what}\n"
                f"  to repeat: {one.repeat}" + (f"\n  logs: {one.logs}" if one.logs else ""),
                highlight=False, markup=False, soft_wrap=True,
            )  # fmt: skip

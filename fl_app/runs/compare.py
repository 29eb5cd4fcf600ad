# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare several policies on the same seeds: same data split, same first weights, same channel draws.

The result is one table and one figure:

    FOLDER/fair-k-seed1/ ...   one run each      FOLDER/compare.json  compare.md  compare.png

A second call with the same folder repeats no finished run, and resumes a run that was stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fl_app.config import Settings
from fl_app.runs import figures
from fl_app.runs.checkpoints import write_atomically
from fl_app.runs.run_folder import RunError, RunFolder

# Settings that may differ between two calls, as they do not change a result.
HOW_NOT_WHAT: dict[str, Any] = {"out": "", "workers": 0, "checkpoint_every": 1}


@dataclass(frozen=True)
class Entry:
    """Describe one run of a comparison."""

    policy: str
    seed: int
    settings: Settings
    folder: RunFolder

    @property
    def rounds_left(self) -> int:
        """Return the number of rounds that this run still has to play."""
        if self.folder.read_result() is not None:
            return 0
        checkpoint = self.folder.latest()
        return self.settings.run.rounds - (checkpoint.rounds_done if checkpoint is not None else 0)


def plan(settings: Settings, policies: Sequence[str], seeds: Sequence[int], path: Path) -> list[Entry]:
    """Return all runs in the order of the seeds, so that a stopped comparison has whole seeds to show."""
    entries = []
    for seed in seeds:
        for policy in policies:
            own = settings.with_values(run={"seed": seed}, selection={"policy": policy})
            name = own.selection.policy
            entries.append(Entry(name, seed, own, RunFolder(path / f"{name}-seed{seed}")))
    return entries


def compare(
    entries: Sequence[Entry], path: Path, next_run: Callable[[], None], train_one: Callable[[Entry], None]
) -> dict[str, Any]:
    """Train the runs that are not finished, and return the comparison.

    Parameters
    ----------
    next_run
        Called before each run, even before one that is already finished.
    train_one
        Makes the folder of a run and trains it.
    """
    for entry in entries:
        folder = entry.folder
        if not folder.exists:
            RunFolder.plan(entry.settings, folder.path)
        elif folder.settings().with_values(run=HOW_NOT_WHAT) != entry.settings.with_values(run=HOW_NOT_WHAT):
            raise RunError(f"{folder.path} holds a run with other settings: choose another --out, or remove it")
        next_run()
        if folder.read_result() is None:
            train_one(entry)
    return conclude(entries, path)


def conclude(entries: Sequence[Entry], path: Path) -> dict[str, Any]:
    """Write the table and the figure of finished runs, and return the comparison."""
    by_policy: dict[str, list[Entry]] = {}
    for entry in entries:
        by_policy.setdefault(entry.policy, []).append(entry)
    outcome = {
        "compare": str(path),
        "seeds": sorted({entry.seed for entry in entries}),
        "policies": {policy: _over_seeds(own) for policy, own in by_policy.items()},
    }
    write_atomically(path / "compare.json", (json.dumps(outcome, indent=2) + "\n").encode())
    write_atomically(path / "compare.md", markdown(outcome).encode())
    runs = {policy: [entry.folder.rows() for entry in own] for policy, own in by_policy.items()}
    figures.draw_comparison(runs, path / "compare.png")
    return outcome


def _over_seeds(entries: Sequence[Entry]) -> dict[str, Any]:
    results = [entry.folder.read_result() or {} for entry in entries]
    accuracies = [result["test_accuracy"] for result in results]
    errors = [result["vote_error_rate"] for result in results]
    return {
        "test_accuracy": float(np.mean(accuracies)),
        "test_accuracy_std": float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None,
        "test_accuracies": accuracies,
        "mean_aou": float(np.mean([result["mean_aou"] for result in results])),
        "max_aou": max(result["max_aou"] for result in results),
        "vote_error_rate": None if None in errors else float(np.mean(errors)),
        "air_seconds": float(np.mean([result["air_seconds"] for result in results])),
        "seconds": float(np.mean([result["seconds"] for result in results])),
    }


COLUMNS = ("policy", "accuracy %", "each seed %", "mean AoU", "oldest", "vote err. %", "air s")


def table_rows(outcome: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return one row for each policy, the most accurate first; COLUMNS names the columns."""
    ordered = sorted(outcome["policies"].items(), key=lambda item: -item[1]["test_accuracy"])
    return [
        (
            policy,
            f"{100 * one['test_accuracy']:.1f}"
            + (f" ± {100 * one['test_accuracy_std']:.1f}" if one["test_accuracy_std"] is not None else ""),
            ", ".join(f"{100 * accuracy:.1f}" for accuracy in one["test_accuracies"]),
            f"{one['mean_aou']:.2f}",
            str(one["max_aou"]),
            "-" if one["vote_error_rate"] is None else f"{100 * one['vote_error_rate']:.1f}",
            f"{one['air_seconds']:.3f}",
        )
        for policy, one in ordered
    ]


def markdown(outcome: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *table_rows(outcome)]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)

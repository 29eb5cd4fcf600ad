# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold, whatever was done to a bench. Each check returns sentences about what does not; none is good."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_app.runs.checkpoints import Checkpoint
from fl_app.runs.metrics import RoundFigures, rows_from, without_times

# A process may hold so much more than after its warm-up, in MB: caches of an allocator, a model for a client that
# joined, a report's figures. A leak of one payload a round (k = 500 entries and its copies) passes it within minutes.
GROWTH_MB = 64.0
# The promise of the virtual Plutos, whatever their clients do.
LIMITS_MB = {"plutos": 500.0}
# The figures that depend on the clock or on how often a model had to be sent again, not on the votes.
_NOT_PROMISED = ("downlink_bytes",)


@dataclass
class Memory:
    """The resident memory of one process over its life, in MB."""

    role: str
    pid: int
    warm_mb: float | None = None  # its largest value when the bench had warmed up
    most_mb: float = 0.0
    most_after_warm_mb: float = 0.0


def rounds_once(rows: Sequence[RoundFigures]) -> list[str]:
    """Every round from 0 on stands in the metrics exactly once, in order."""
    numbers = [row.round for row in rows]
    if numbers == list(range(len(numbers))):
        return []
    missing = sorted(set(range(max(numbers) + 1)) - set(numbers))
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    found = [f"rounds {missing} are missing from the metrics"] if missing else []
    found += [f"rounds {twice} stand in the metrics more than once"] if twice else []
    return found or [f"rounds are out of order in the metrics: {numbers}"]


def checkpoint_fits(checkpoint: Checkpoint | None, rows: Sequence[RoundFigures]) -> list[str]:
    """The checkpoint holds the first rounds of the metrics, and each of their updates exactly once."""
    if checkpoint is None:
        return []
    done = checkpoint.rounds_done
    if done > len(rows):
        return [f"the checkpoint has {done} rounds, the metrics have only {len(rows)}"]
    found = []
    if rows_from(checkpoint.state["rows"]) != list(rows[:done]):
        found.append(f"the checkpoint's figures of its {done} rounds are not those of the metrics")
    sent, asked = int(checkpoint.arrays["times_sent"].sum()), sum(row.k for row in rows[:done])
    if sent != asked:
        found.append(f"the model took {sent} entries in {done} rounds, which asked for {asked}")
    return found


def same_rounds(rows: Sequence[RoundFigures], undisturbed: Sequence[RoundFigures]) -> list[str]:
    """The figures are those of a run that nobody disturbed, as far as the rounds go."""
    for row, wanted in zip(rows, undisturbed, strict=False):
        ours, theirs = _promised(row), _promised(wanted)
        different = {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
        if different:
            values = ", ".join(f"{name} {a} instead of {b}" for name, (a, b) in different.items())
            return [f"round {row.round} differs from the undisturbed run: {values}"]
    return []


def same_model(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> list[str]:
    """Every array of the state is that of the undisturbed run, bit for bit."""
    if ours.keys() != theirs.keys():
        return [f"the arrays {sorted(ours)} are not those of the undisturbed run, {sorted(theirs)}"]
    different = [name for name in ours if not np.array_equal(ours[name], theirs[name])]
    return [f"the arrays {different} differ from the undisturbed run"] if different else []


def memory_flat(processes: Iterable[Memory]) -> list[str]:
    """No process holds more than GROWTH_MB above its own value after warm-up, nor more than its role may."""
    found = []
    for one in processes:
        if one.warm_mb is not None and one.most_after_warm_mb > one.warm_mb + GROWTH_MB:
            found.append(
                f"{one.role} (pid {one.pid}) grew from {one.warm_mb:.0f} MB to {one.most_after_warm_mb:.0f} MB, "
                f"by more than {GROWTH_MB:.0f} MB"
            )
        limit = LIMITS_MB.get(one.role)
        if limit is not None and one.most_mb > limit:
            found.append(f"{one.role} (pid {one.pid}) held {one.most_mb:.0f} MB, more than {limit:.0f} MB")
    return found


def nothing_runs(processes: Mapping[int, str]) -> list[str]:
    """No process of the bench is left: `processes` are those that still run, by pid."""
    return [f"{role} (pid {pid}) was left behind" for pid, role in processes.items()]


def one_of_each(processes: Mapping[int, str]) -> list[str]:
    """No process was started a second time while the first one still ran."""
    roles = list(processes.values())
    return [f"{roles.count(role)} processes are {role}" for role in sorted(set(roles)) if roles.count(role) > 1]


def nothing_lies_about(folders: Iterable[Path]) -> list[str]:
    """Folders for sockets and temporary files are empty."""
    files = [file for folder in folders for file in sorted(folder.rglob("*"))]
    return [f"{file} was left behind ({_kind_of(file)})" for file in files]


def no_traceback(logs: Mapping[str, str]) -> list[str]:
    """A program that is disturbed says so in a sentence, not in a traceback."""
    return [
        f"{name} has a traceback: {text[text.index(mark) :].strip().splitlines()[-1][:300]}"
        for name, text in logs.items()
        for mark in ["Traceback (most recent call last)"]
        if mark in text
    ]


def _promised(row: RoundFigures) -> dict:
    return {name: value for name, value in without_times(row).items() if name not in _NOT_PROMISED}


def _kind_of(file: Path) -> str:
    mode = file.lstat().st_mode
    return "a socket" if stat.S_ISSOCK(mode) else "a folder" if stat.S_ISDIR(mode) else "a file"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Summarise the finished runs of a sweep: mean, standard deviation and each seed's value, for each combination."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fl_app.config import Settings
from fl_app.runs.metrics import RoundFigures
from fl_app.runs.sweeps.plan import SweepRun, short_keys, value_text_of

# Figures of every run's result that are summarised over the seeds; a task's own figures of merit follow them.
FIGURES = (
    "test_accuracy",
    "test_loss",
    "mean_aou",
    "max_aou",
    "vote_error_rate",
    "tie_share",
    "air_seconds",
    "air_joules",
    "air_hertz",
    "seconds",
)


def over_seeds(each: Sequence[float | None]) -> dict[str, Any]:
    """Return mean and sample standard deviation of the values that are known, and all values.

    The standard deviation is None for fewer than two values, the mean for none.
    """
    known = [value for value in each if value is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "std": statistics.stdev(known) if len(known) > 1 else None,
        "each": list(each),
    }


def results_of(runs: Sequence[SweepRun]) -> list[dict[str, Any] | None]:
    """Return the result of each run, the task's own figures among the others as ``test_NAME``; None if not finished."""
    results = [run.folder.read_result() for run in runs]
    return [None if one is None else {**_further(one), **one} for one in results]


def _further(result: Mapping[str, Any]) -> dict[str, float | None]:
    return {f"test_{name}": value for name, value in (result.get("test_figures") or {}).items()}


def outcome_of(runs: Sequence[SweepRun], failed: Sequence[Mapping[str, str]], path: Path) -> dict[str, Any]:
    """Return all that is known about a sweep, as plain values for JSON."""
    results = results_of(runs)
    seeds = list(dict.fromkeys(run.seed for run in runs))
    combinations: list[list[int]] = []
    for number, run in enumerate(runs):
        own = next((one for one in combinations if runs[one[0]].values == run.values), None)
        if own is None:
            combinations.append([number])
        else:
            own.append(number)
    keys = list(runs[0].values)
    figures = list(dict.fromkeys([*FIGURES, *(name for one in results if one is not None for name in _further(one))]))
    return {
        "sweep": str(path),
        "figures": figures,
        "vary": {key: _unique([run.values[key] for run in runs]) for key in keys},
        "seeds": seeds,
        "shared": shared_text(runs[0].settings, keys),
        "points": [
            {
                "values": dict(runs[own[0]].values),
                "runs": [runs[number].name for number in own],
                **{figure: over_seeds([(results[number] or {}).get(figure) for number in own]) for figure in figures},
            }
            for own in combinations
        ],
        "runs": [
            {"name": run.name, "values": dict(run.values), **result}
            for run, result in zip(runs, results, strict=True)
            if result is not None
        ],
        "failed": list(failed),
    }


def curves_of(runs: Sequence[SweepRun]) -> dict[str, list[list[RoundFigures]]]:
    """Return the rounds of all finished runs of each combination, by the combination's label."""
    curves: dict[str, list[list[RoundFigures]]] = {}
    for run in runs:
        if run.is_finished:
            label = line_texts(run.values, list(run.values)) or "all seeds"
            curves.setdefault(label, []).append(run.folder.rows())
    return curves


def shared_text(settings: Settings, varied: Sequence[str]) -> str:
    """Return what the runs have in common in one line."""
    selection = settings.selection
    share = f"k = {selection.k}" if selection.k is not None else f"rho = {100 * (selection.rho or 0):g} %"
    parts = {
        "data.name": settings.data.name,
        "model.name": settings.model.name,
        "clients.n": f"N = {settings.clients.n}",
        "selection.policy": selection.policy,
        "selection.k" if selection.k is not None else "selection.rho": share,
        "air.name": f"{settings.air.name} air",
        "air.mode": settings.air.mode,
        "run.rounds": f"{settings.run.rounds} rounds",
    }
    return ", ".join(text for key, text in parts.items() if key not in varied)


def _unique(values: Sequence[Any]) -> list[Any]:
    """Return each value once, in the order of its first appearance; lists have no hash."""
    return [value for number, value in enumerate(values) if value not in values[:number]]


def line_texts(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return "snr_db = 10, policy = fair-k" for some of the keys; for one key, its value alone."""
    short = short_keys(list(values))
    if len(keys) == 1:
        return value_text_of(values[keys[0]])
    return ", ".join(f"{short[key]} = {value_text_of(values[key])}" for key in keys)

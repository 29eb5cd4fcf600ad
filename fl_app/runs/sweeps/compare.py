# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare several policies on the same seeds: same data split, same first weights, same channel draws.

A comparison is a sweep over the policies. It has its own folders, and its own table and figure, which shows each round:

    FOLDER/fair-k-seed1/ ...   one run each
    FOLDER/compare.html  compare.json  compare.md  compare.csv  compare.tex  compare.png  compare-air.png
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fl_app.config import Settings
from fl_app.pictures import FORMATS
from fl_app.runs.sweeps.outcome import curves_of, outcome_of
from fl_app.runs.sweeps.plan import SweepRun, plan
from fl_app.runs.sweeps.table import markdown

POLICY = "selection.policy"


def plan_comparison(settings: Settings, policies: Sequence[str], seeds: Sequence[int], path: Path) -> list[SweepRun]:
    """Return all runs of a comparison in the order of the seeds."""
    return plan(
        settings,
        {POLICY: policies},
        seeds,
        path,
        words=lambda _key, policy: f"--policies {policy}",
        name_of=lambda values, seed: f"{values[POLICY]}-seed{seed}",
    )


def conclude_comparison(runs: Sequence[SweepRun], path: Path, formats: Sequence[str] = FORMATS) -> dict[str, Any]:
    """Write the table, the figures and the page of finished runs, and return the comparison."""
    swept = outcome_of(runs, [], path)
    outcome = {
        "compare": str(path),
        "seeds": sorted(swept["seeds"]),
        "policies": {point["values"][POLICY]: _figures(point) for point in swept["points"]},
    }
    from fl_app.runs.figures import air_time_figure, comparison_figure  # matplotlib takes a while to import
    from fl_app.runs.sweeps.files import AIR_CAPTION, write_files, write_text

    write_text(path / "compare.json", json.dumps(outcome, indent=2) + "\n")
    write_text(path / "compare.md", markdown(columns(outcome), table_rows(outcome)))
    curves = curves_of(runs)
    figures = {
        "compare": (comparison_figure(curves), "Mean over the seeds, and a band over all of them."),
        "compare-air": (air_time_figure(curves), AIR_CAPTION),
    }
    ranked = {**swept, "points": sorted(swept["points"], key=lambda point: _rank(_figures(point)))}
    write_files("compare", ranked, runs, path, figures, formats)
    return outcome


def _rank(one: Mapping[str, Any]) -> float:
    """Return a number that is smaller for a better policy."""
    accuracy = one["test_accuracy"]
    return float(one["test_loss"] if accuracy is None else -accuracy)


def _figures(point: dict[str, Any]) -> dict[str, Any]:
    accuracy = point["test_accuracy"]
    return {
        "test_accuracy": accuracy["mean"],
        "test_accuracy_std": accuracy["std"],
        "test_accuracies": accuracy["each"],
        "test_loss": point["test_loss"]["mean"],
        "test_losses": point["test_loss"]["each"],
        "mean_aou": point["mean_aou"]["mean"],
        "max_aou": max(point["max_aou"]["each"]),
        "vote_error_rate": point["vote_error_rate"]["mean"],
        "tie_share": point["tie_share"]["mean"],
        "air_seconds": point["air_seconds"]["mean"],
        "air_joules": point["air_joules"]["mean"],
        "air_hertz": point["air_hertz"]["mean"],
        "seconds": point["seconds"]["mean"],
    }


def columns(outcome: dict[str, Any], with_seeds: bool = True) -> tuple[str, ...]:
    """Return the headings of the table; a task without an accuracy is compared by its loss."""
    judged = ("accuracy %", "each seed %") if _has_accuracy(outcome) else ("loss", "each seed")
    shown = judged if with_seeds else judged[:1]
    return ("policy", *shown, "mean AoU", "oldest", "vote err. %", "ties %", "air s", "client mJ")


def table_rows(outcome: dict[str, Any], with_seeds: bool = True) -> list[tuple[str, ...]]:
    """Return one row for each policy, the best first; `columns` names the columns."""
    ordered = sorted(outcome["policies"].items(), key=lambda item: _rank(item[1]))
    return [
        (
            policy,
            *(_judgement(one) if with_seeds else _judgement(one)[:1]),
            f"{one['mean_aou']:.2f}",
            str(one["max_aou"]),
            "-" if one["vote_error_rate"] is None else f"{100 * one['vote_error_rate']:.1f}",
            "-" if one["tie_share"] is None else f"{100 * one['tie_share']:.1f}",
            f"{one['air_seconds']:.3f}",
            "-" if one["air_joules"] is None else f"{1000 * one['air_joules']:.1f}",
        )
        for policy, one in ordered
    ]


def _has_accuracy(outcome: dict[str, Any]) -> bool:
    return all(one["test_accuracy"] is not None for one in outcome["policies"].values())


def _judgement(one: dict[str, Any]) -> tuple[str, str]:
    """Return accuracy, or loss, as its mean and for each seed."""
    if one["test_accuracy"] is None:
        return f"{one['test_loss']:.3f}", ", ".join(f"{loss:.3f}" for loss in one["test_losses"])
    spread = f" ± {100 * one['test_accuracy_std']:.1f}" if one["test_accuracy_std"] is not None else ""
    each = ", ".join(f"{100 * accuracy:.1f}" for accuracy in one["test_accuracies"])
    return f"{100 * one['test_accuracy']:.1f}{spread}", each

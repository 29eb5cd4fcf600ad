# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the paper's experiments that train: what is varied, what the paper claims, and whether that holds here."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fl_app.paper.scales import Scale, TrialSettings, prototype, simulations, uneven_simulation

POLICIES = ("fair-k", "top-k", "age-top-k", "top-rand")
# A point of a sweep: its `values`, and for each figure of merit its `mean`, its `std` and `each` seed's value.
Point = Mapping[str, Any]
Points = Mapping[str, Sequence[Point]]  # by the title of the trial


@dataclass(frozen=True)
class Verdict:
    """Say whether a claim of the paper holds here.

    Attributes
    ----------
    agrees
        True if it does.
    sentence
        What was found, with numbers.
    """

    agrees: bool
    sentence: str


@dataclass(frozen=True)
class PaperFigure:
    """Describe one figure of the paper that is made of training runs.

    Attributes
    ----------
    name, title, claim
        Its name in the paper, what it shows, and what the paper says about it.
    trials
        The settings for a scale, one for each panel.
    vary
        Keys and their values; every combination is a line or a point of the figure.
    judge
        Makes the verdict of the points of all trials.
    kind
        What is drawn: accuracy over rounds, ages over rounds, or accuracy over a varied key.
    """

    name: str
    title: str
    claim: str
    trials: Callable[[Scale], list[TrialSettings]]
    vary: Callable[[Scale], dict[str, list[Any]]]
    judge: Callable[[Points], Verdict]
    kind: str = "accuracy"


def accuracy(points: Sequence[Point], **values: Any) -> tuple[float, float]:
    """Return mean and standard error of the accuracy, in percent, at the point with these values."""
    own = figures(points, "test_accuracy", **values)
    error = statistics.stdev(own) / len(own) ** 0.5 if len(own) > 1 else 0.0
    return 100 * statistics.fmean(own), 100 * error


def figures(points: Sequence[Point], name: str, **values: Any) -> list[float]:
    """Return each seed's figure at the point with these values; a key is given by its last part."""
    for point in points:
        own = {key.rpartition(".")[2]: value for key, value in point["values"].items()}
        if own == values:
            return [value for value in point[name]["each"] if value is not None]
    raise KeyError(f"no point has {values}")


def _policies(_scale: Scale) -> dict[str, list[Any]]:
    return {"selection.policy": list(POLICIES)}


def judge_policies(points: Points) -> Verdict:
    """Compare FAIR-k with the best rival in each trial."""
    parts, holds = [], True
    for title, own in points.items():
        ours, error = accuracy(own, policy="fair-k")
        rivals = {name: accuracy(own, policy=name) for name in POLICIES[1:]}
        best = max(rivals, key=lambda name: rivals[name][0])
        gap, both = ours - rivals[best][0], (error**2 + rivals[best][1] ** 2) ** 0.5
        holds &= gap > both
        others = ", ".join(f"{name} {value:.1f} +- {spread:.1f}" for name, (value, spread) in rivals.items())
        parts.append(f"{title}: fair-k {ours:.1f} +- {error:.1f} %, {others}; {gap:+.1f} +- {both:.1f} to {best}")
    return Verdict(holds, "; ".join(parts))


def judge_ages(points: Points) -> Verdict:
    """Compare the mean age of FAIR-k with that of TopRand."""
    (title, own), *_ = points.items()
    ages = {name: statistics.fmean(figures(own, "mean_aou", policy=name)) for name in POLICIES}
    ratio = ages["fair-k"] / ages["top-rand"]
    text = ", ".join(f"{name} {age:.1f}" for name, age in ages.items())
    return Verdict(
        min(ages, key=lambda name: ages[name]) == "fair-k" and 0.4 <= ratio <= 0.65,
        f"{title}: mean age of update {text} rounds; fair-k has {ratio:.2f} of top-rand's",
    )


RATIOS = {
    Scale.SMOKE: (0.0, 0.5, 1.0),
    Scale.CPU: (0.1, 0.5, 0.75, 0.9),  # the claim is about this range; Fig. 4 has the end k_M = k, Top-k
    Scale.PAPER: (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0),
}


def judge_ratios(points: Points) -> Verdict:
    """Compare the accuracy between k_M/k = 0.1 and 0.9."""
    (title, own), *_ = points.items()
    by_ratio = {point["values"]["selection.k_m_ratio"]: point for point in own}
    found = {ratio: accuracy(own, k_m_ratio=ratio) for ratio in by_ratio}
    inner = {ratio: value for ratio, (value, _) in found.items() if 0.1 <= ratio <= 0.9}
    spread, error = max(inner.values()) - min(inner.values()), max(error for _, error in found.values())
    text = ", ".join(f"{ratio:g}: {value:.1f}" for ratio, (value, _) in found.items())
    return Verdict(
        spread <= max(5.0, 2 * error),
        f"{title}: accuracy in % by k_M/k {text}; from 0.1 to 0.9 it varies by {spread:.1f} points (standard error "
        f"{error:.1f})",
    )


def judge_steps(points: Points) -> Verdict:
    """Ask whether training with the most local steps converges, under every policy."""
    (title, own), *_ = points.items()
    steps = sorted({point["values"]["clients.H"] for point in own})
    names = sorted({point["values"]["selection.policy"] for point in own})
    found = {(name, h): accuracy(own, policy=name, H=h) for name in names for h in steps}
    text = "; ".join(
        f"{name} " + ", ".join(f"H = {h}: {found[name, h][0]:.1f} +- {found[name, h][1]:.1f} %" for h in steps)
        for name in names
    )
    converges = all(
        found[name, steps[-1]][0] >= found[name, steps[0]][0] - 2 * found[name, steps[0]][1] for name in names
    )
    return Verdict(converges, f"{title}: {text}")


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        PaperFigure(
            "fig4",
            "Test accuracy against rounds",
            "FAIR-k converges fastest",
            simulations,
            _policies,
            judge_policies,
        ),
        PaperFigure(
            "fig5",
            "Mean age of update, and how often entries take part",
            "FAIR-k has the lowest mean age, about half of TopRand's",
            lambda scale: [uneven_simulation(scale)],
            _policies,
            judge_ages,
            kind="ages",
        ),
        PaperFigure(
            "fig6",
            "Test accuracy against k_M/k",
            "accuracy is flat over a wide range of k_M/k",
            lambda scale: [uneven_simulation(scale)],
            lambda scale: {"selection.k_m_ratio": list(RATIOS[scale])},
            judge_ratios,
            kind="ratios",
        ),
        PaperFigure(
            "fig7",
            "Test accuracy for more local steps",
            "training converges with H = 20 local steps, under every policy",
            lambda scale: [uneven_simulation(scale)],
            lambda scale: {
                # H = 20 costs four times the rest, so that two cores manage one policy.
                "selection.policy": ["fair-k"] if scale is Scale.CPU else ["fair-k", "top-k"],
                "clients.H": [1, 2] if scale is Scale.SMOKE else [1, 5, 20],
            },
            judge_steps,
        ),
        PaperFigure(
            "fig9",
            "Test accuracy of the one-bit prototype",
            "the one-bit prototype ranks the policies as the simulations do: FAIR-k converges fastest",
            lambda scale: [prototype(scale)],
            _policies,
            judge_policies,
        ),
    )
}

# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a figure or table of the paper: play its runs, draw it, write a CSV, and say whether the paper's claim holds."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fl_app.config import ConfigError
from fl_app.paper.experiments import EXPERIMENTS, PaperFigure, Verdict
from fl_app.paper.scales import SEEDS, Scale, table_settings
from fl_app.pictures import FORMATS, save_figure
from fl_app.runs.checkpoints import write_atomically
from fl_app.runs.sweeps.outcome import outcome_of
from fl_app.runs.sweeps.plan import SweepRun, combination_texts, folder_name, plan

NAMES = ("fig3", *EXPERIMENTS, "table1")
_TABLE_ROUNDS = {Scale.SMOKE: 2, Scale.CPU: 20, Scale.PAPER: 100}
_TABLE_EVERY = {Scale.SMOKE: 1, Scale.CPU: 4, Scale.PAPER: 1}  # the constants are estimated at every so many rounds
_TABLE_SAMPLES = {Scale.SMOKE: 20, Scale.CPU: 200, Scale.PAPER: 1000}

Tell = Callable[[str], None]


def runs_of(experiment: PaperFigure, scale: Scale, folder: Path, changes: Sequence[str] = ()) -> list[SweepRun]:
    """Return all runs of an experiment; each has its folder in ``folder``, so that a stopped series goes on.

    Figures share the runs that they have in common: a folder is named after everything that some figure varies.
    """
    runs: list[SweepRun] = []
    for trial in experiment.trials(scale):
        settings = trial.settings(tuple(changes))
        shared = {
            "selection.policy": settings.selection.policy,
            "selection.k_m_ratio": settings.selection.k_m_ratio,
            "clients.H": settings.clients.H,
        }
        runs += plan(
            settings,
            experiment.vary(scale),
            SEEDS[scale],
            folder / "runs" / trial.slug,
            lambda key, value: f"{key}={value}",
            lambda values, seed, shared=shared: folder_name({**shared, **values}, seed),  # type: ignore[misc]
        )
    return runs


def conclude(
    experiment: PaperFigure, scale: Scale, runs: Sequence[SweepRun], folder: Path, formats: Sequence[str] = FORMATS
) -> dict[str, Any]:
    """Draw the figure of finished runs, write its CSV and its verdict, and return what was found."""
    from fl_app.paper import drawing

    trials = experiment.trials(scale)
    by_trial = {trial.title: [run for run in runs if run.folder.path.parent.name == trial.slug] for trial in trials}
    points = {title: outcome_of(own, [], folder)["points"] for title, own in by_trial.items()}
    figure = drawing.draw(experiment.kind, experiment.title, by_trial, points)
    save_figure(figure, folder / experiment.name, formats)
    _write_rounds(by_trial, folder / f"{experiment.name}.csv")
    verdict = experiment.judge(points)
    return finish(experiment.name, experiment.title, experiment.claim, scale, verdict, folder, {"points": points})


def reproduce_ages(scale: Scale, folder: Path, formats: Sequence[str] = FORMATS) -> dict[str, Any]:
    """Make Fig. 3: the distribution of the age of update by Lemma 1, by its limit, and simulated."""
    from fl_app.paper import drawing
    from fl_app.theory import aou
    from fl_app.theory.exchange import Exchange

    exchange = Exchange(d=800, k=80, k_m=60, k0=15)
    rounds = {Scale.SMOKE: 2000, Scale.CPU: 50_000, Scale.PAPER: 200_000}[scale]
    found = {"Lemma 1": aou.lemma1(exchange), "limit": aou.limit(exchange)}
    played = aou.simulate(exchange, rounds)
    distances = {name: aou.total_variation(one, played) for name, one in found.items()}
    save_figure(drawing.draw_ages({**found, "simulation": played}), folder / "fig3", formats)
    ages = max(len(one.pmf) for one in (*found.values(), played))
    rows = [
        [age, *(f"{one.pmf[age] if age < len(one.pmf) else 0:.8f}" for one in (*found.values(), played))]
        for age in range(ages)
    ]
    _write_csv(folder / "fig3.csv", ["age_rounds", "lemma1", "limit", "simulation"], rows)
    verdict = Verdict(
        distances["Lemma 1"] <= 0.03,
        f"total variation to the simulation: Lemma 1 {distances['Lemma 1']:.4f}, limit {distances['limit']:.4f}; mean "
        f"age {found['Lemma 1'].mean:.2f}, {found['limit'].mean:.2f}, simulated {played.mean:.2f} rounds",
    )
    more = {
        "total_variation": distances,
        "mean": {**{n: one.mean for n, one in found.items()}, "simulation": played.mean},
    }
    title, claim = "Distribution of the age of update", "Lemma 1 matches the simulation"
    return finish("fig3", title, claim, scale, verdict, folder, more)


def reproduce_table(scale: Scale, folder: Path, tell: Tell = print, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Make Table I: the Lipschitz constants for data sets and Dirichlet parameters; finished rows are kept."""
    from fl_app.theory.trajectory import estimate

    kept = folder / "rows.json"
    rows: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else []
    for data, alpha, trial in table_settings(scale):
        if any(row["data"] == data and row["alpha"] == alpha for row in rows):
            continue
        tell(f"{trial.title} ...")
        settings = trial.settings(tuple(changes))
        found = estimate(settings, _TABLE_ROUNDS[scale], _TABLE_EVERY[scale], _TABLE_SAMPLES[scale])
        rows.append({"data": data, "alpha": alpha, **found.to_dict()})
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, json.dumps(rows).encode())
    keys = ("local_squared", "global_squared", "heterogeneity_squared")
    _write_csv(
        folder / "table1.csv",
        ["data", "dirichlet", "L_local^2", "L_g^2", "L_h^2"],
        [[row["data"], row["alpha"], *(f"{row[key]:.4g}" for key in keys)] for row in rows],
    )
    verdict = judge_constants(rows)
    claim = "L_g and L_h are far below L~, and L~ grows as the data become more uneven"
    return finish("table1", "Lipschitz constants", claim, scale, verdict, folder, {"rows": rows})


def judge_constants(rows: Sequence[Mapping[str, Any]]) -> Verdict:
    """Compare the constants with each other, and the first with itself over the Dirichlet parameter."""
    parts, holds = [], True
    for data in dict.fromkeys(row["data"] for row in rows):
        own = sorted((row for row in rows if row["data"] == data), key=lambda row: row["alpha"])
        below = [
            min(row["local_squared"] / row["global_squared"], row["local_squared"] / row["heterogeneity_squared"])
            for row in own
        ]
        grows = own[0]["local_squared"] > own[-1]["local_squared"]
        holds &= min(below) > 3 and grows
        text = ", ".join(
            f"Dir {row['alpha']:g}: {row['local_squared']:.3g} / {row['global_squared']:.3g} / "
            f"{row['heterogeneity_squared']:.3g}"
            for row in own
        )
        parts.append(
            f"{data}: L~^2 / L_g^2 / L_h^2 {text}; L~^2 is at least {min(below):.1f} times the others, and "
            f"{'grows' if grows else 'does not grow'} as Dir falls"
        )
    return Verdict(holds, "; ".join(parts))


def finish(
    name: str, title: str, claim: str, scale: Scale, verdict: Verdict, folder: Path, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the verdict as JSON and as text, and return it; a smoke test of training runs has none."""
    agrees = None if scale is Scale.SMOKE and name != "fig3" else verdict.agrees
    result = {
        "name": name,
        "title": title,
        "scale": scale.value,
        "claim": claim,
        "agrees": agrees,
        "sentence": verdict.sentence,
        "folder": str(folder),
        **more,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.json", json.dumps(result, indent=1).encode())
    text = (
        f"# {name}: {title}\n\nThe paper: {claim}. {answer_of(result)} (scale {scale.value}).\n\n{verdict.sentence}.\n"
    )
    write_atomically(folder / f"{name}.md", text.encode())
    return result


def answer_of(result: Mapping[str, Any]) -> str:
    """Return the verdict in a few words."""
    answers = {
        True: "This holds here",
        False: "This does not hold here",
        None: "A smoke test cannot say whether it holds",
    }
    return answers[result["agrees"]]


def experiment_named(name: str) -> PaperFigure | None:
    """Return the experiment of a figure that trains; None for fig3 and table1; ConfigError if there is none."""
    if name not in NAMES:
        raise ConfigError(f"{name!r} is none of the paper's figures here; there are {', '.join(NAMES)}")
    return EXPERIMENTS.get(name)


def _write_rounds(by_trial: Mapping[str, Sequence[SweepRun]], path: Path) -> None:
    """Write one line for each tested round of each run."""
    rows = [
        [title, ", ".join(combination_texts(run.values)), run.seed, row.round + 1, row.test_accuracy, row.mean_aou]
        for title, own in by_trial.items()
        for run in own
        for row in run.folder.rows()
        if row.is_tested
    ]
    _write_csv(path, ["trial", "line", "seed", "round", "test_accuracy", "mean_aou"], rows)


def _write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the commands `fl_app theory ...`: the paper's theory as tools for planning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from fl_app.cli.console import Config, Json, Set, clear_errors, settings_from
from fl_app.config import ConfigError

if TYPE_CHECKING:
    from fl_app.theory.aou import AgeDistribution

theory = typer.Typer(no_args_is_help=True, help="Compute ages, noise and convergence by the paper's theory.")

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
_SHOWN_AGES = 12  # rows of the table of ages


@theory.command()
def aou(
    d: Annotated[int, typer.Option("--d", min=2, help="Number of entries of the model.")],
    k: Annotated[int, typer.Option("--k", min=1, help="Number of entries sent in a round, at most d/2.")],
    k_m: Annotated[int, typer.Option("--k-m", min=0, help="Number of entries selected by magnitude, 0 to k.")],
    k0: Annotated[
        float, typer.Option("--k0", min=0, help="Number of entries that the magnitude set exchanges in a round.")
    ],
    simulate: Annotated[bool, typer.Option("--simulate", help="Play the exchange process as well.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Number of simulated rounds.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    as_json: Json = False,
) -> None:
    """Compute the distribution of the age of update under FAIR-k: Lemma 1, its limit for large d, a simulation.

    Lemma 1 needs a matrix and is left out where the model is too large for it; the limit takes microseconds.

    Example: fl_app theory aou --d 800 --k 80 --k-m 60 --k0 15 --simulate
    """
    with clear_errors(), wrong_options():
        from fl_app.theory import aou as ages
        from fl_app.theory.exchange import Exchange

        exchange = Exchange(d, k, k_m, k0)
        found: dict[str, AgeDistribution | None] = {"lemma1": None, "limit": ages.limit(exchange)}
        if ages.fits(exchange):
            found["lemma1"] = ages.lemma1(exchange)
        if simulate:
            found["simulation"] = ages.simulate(exchange, rounds, seed)
        if as_json:
            typer.echo(json.dumps({name: None if one is None else one.to_dict() for name, one in found.items()}))
            return
        Console().print(_age_table({name: one for name, one in found.items() if one is not None}))
        if found["lemma1"] is None:
            typer.echo("Lemma 1 is left out: its matrix is too large for this model. The limit holds for large models.")
        if simulate:
            played = found["simulation"]
            assert played is not None
            for name in ("lemma1", "limit"):
                one = found[name]
                if one is not None:
                    distance = ages.total_variation(one, played)
                    typer.echo(f"total variation between {name} and the simulation: {distance:.4f}")


def _age_table(found: dict[str, AgeDistribution]) -> Table:
    table = Table("age (rounds)", *found, box=SIMPLE)
    longest = max(len(one.pmf) for one in found.values())
    shown = sorted({round(step * (longest - 1) / (_SHOWN_AGES - 1)) for step in range(_SHOWN_AGES)})
    for age in shown:
        cells = (f"{one.pmf[age]:.5f}" if age < len(one.pmf) else "-" for one in found.values())
        table.add_row(str(age), *cells)
    table.add_section()
    table.add_row("mean", *(f"{one.mean:.3f}" for one in found.values()))
    table.add_row("largest", *(f"{one.max:g}" for one in found.values()))
    return table


@theory.command()
def noise(
    s: Annotated[
        str, typer.Option("--s", help="Sizes of gradient entries over their noise, separated by commas.")
    ] = "0,0.1,0.3,1,3",
    rho: Annotated[float, typer.Option(help="Share of the entries in a round, k/d.")] = 0.1,
    rounds: Annotated[int, typer.Option(min=1, help="The horizon, in rounds.")] = 600,
    simulate: Annotated[bool, typer.Option("--simulate", help="Play every policy as well (20,000 entries).")] = False,
    as_json: Json = False,
) -> None:
    """Compute how noise adds up under each policy, relative to a policy that sends all entries.

    A stale entry applies its noise again in each round. A value of 10 means ten times the noise power of dense
    aggregation in the model after all rounds.

    Example: fl_app theory noise --s 0,0.3,1 --rho 0.1 --rounds 600
    """
    with clear_errors(), wrong_options():
        from fl_app.core.noise_gain import KNOWN_POLICIES, Setting, noise_gain
        from fl_app.theory.accumulation import simulate as simulated

        try:
            sizes = [float(part) for part in s.split(",")]
        except ValueError:
            raise ConfigError(f"--s must be numbers separated by commas, got {s!r}") from None
        rows: list[dict[str, Any]] = []
        for policy, ratio in _POLICIES:
            row: dict[str, Any] = {"policy": policy, "k_m_ratio": ratio, "closed_form": [], "simulation": []}
            for size in sizes:
                setting = Setting(size, rho, 0.75 if ratio is None else ratio, rounds)
                if policy in KNOWN_POLICIES:
                    row["closed_form"].append(noise_gain(policy, setting).total)
                if simulate:
                    row["simulation"].append(simulated(policy, setting).noise_gain)
            rows.append(row)
        if as_json:
            typer.echo(json.dumps({"s": sizes, "rho": rho, "rounds": rounds, "policies": rows}))
            return
        table = Table("policy", "k_M/k", *(f"s = {size:g}" for size in sizes), box=SIMPLE)
        table.title = f"noise power relative to dense, rho = {rho:g}, {rounds} rounds"
        for row in rows:
            for kind in ("closed_form", "simulation"):
                if row[kind]:
                    name = row["policy"] if kind == "closed_form" else f"{row['policy']} (simulated)"
                    share = "-" if row["k_m_ratio"] is None else f"{row['k_m_ratio']:g}"
                    table.add_row(name, share, *(f"{value:.3g}" for value in row[kind]))
        Console().print(table)


@theory.command()
def exchange(
    config: Config = None,
    changes: Set = None,
    skip: Annotated[int, typer.Option(min=1, help="Rounds at the beginning that do not count.")] = 5,
    as_json: Json = False,
) -> None:
    """Train, and measure how many entries the magnitude set exchanges in a round: k_0, p_1 and p_2 of Lemma 1.

    The biases say how far the exchange is from uniform, as Lemma 1 assumes it: 0 is uniform, 1 is not at all.

    Example: fl_app theory exchange quickstart --set run.rounds=40
    """
    with clear_errors():
        settings = settings_from(config, changes, {})
        from fl_app.runs.callbacks import CallbackList
        from fl_app.runs.run import Run
        from fl_app.theory.measured import ExchangeMeter

        if settings.run.rounds < skip + 2:
            raise ConfigError(f"[run] rounds must be at least {skip + 2} with --skip {skip}, got {settings.run.rounds}")
        meter = ExchangeMeter(skip=skip)
        run = Run(settings, callbacks=CallbackList([meter]))
        with progress_bar("round", settings.run.rounds) as step:
            for _row in run.rounds(settings.run.rounds):
                step()
        show(as_json, meter.result().to_dict(), _EXCHANGE_NAMES)


@theory.command()
def regime(
    config: Config = None,
    changes: Set = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds that are measured.")] = 2,
    clients: Annotated[
        int | None, typer.Option(min=2, help="Clients that are computed; the rest is extrapolated. Default: all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure how large the air's noise is against the gradient, per entry of the model.

    Which policy wins depends on this ratio. It needs an air whose noise is given by noise_std.

    Example: fl_app theory regime cifar10-small --set data.root=/data
    """
    with clear_errors():
        settings = settings_from(config, changes, {})
        from fl_app.theory.regime import measure

        with progress_bar("round", rounds) as step:
            found = measure(settings, rounds, clients, step)
        show(as_json, found.to_dict(), _REGIME_NAMES)


@theory.command()
def lipschitz(
    config: Config = None,
    changes: Set = None,
    rounds: Annotated[int, typer.Option(min=1, help="Length of the trajectory in rounds.")] = 20,
    every: Annotated[int, typer.Option(min=1, help="Estimate at every so many rounds.")] = 1,
    samples: Annotated[int, typer.Option(min=1, help="Samples of each client for a gradient, at most.")] = 500,
    as_json: Json = False,
) -> None:
    """Estimate the Lipschitz constants of Table I, and the other constants of Theorem 1, along a training trajectory.

    Example: fl_app theory lipschitz quickstart --set data.alpha=0.3 --rounds 10
    """
    with clear_errors():
        settings = settings_from(config, changes, {})
        from fl_app.theory.trajectory import estimate

        with progress_bar("round", rounds) as step:
            found = estimate(settings, rounds, every, samples, on_round=lambda _t: step())
        show(as_json, found.to_dict(), _CONSTANT_NAMES)


@theory.command()
def bound(
    config: Config = None,
    changes: Set = None,
    exchanged: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the magnitude set that a round exchanges, k_0/k_M.")
    ] = 0.25,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the trajectory that gives the constants.")] = 5,
    samples: Annotated[int, typer.Option(min=1, help="Samples of each client for a gradient, at most.")] = 200,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the terms over H and T into this file (.png, .svg or .pdf).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute every term of Theorem 1 for a config, and say which dominates; constants come from a short trajectory.

    The theorem is an order of magnitude: compare terms, and configs with each other. It is about analog aggregation.

    Example: fl_app theory bound cifar10-small --set clients.H=20 --figure bound.png
    """
    with clear_errors():
        settings = settings_from(config, changes, {})
        from fl_app.theory.drawing import draw_bound
        from fl_app.theory.plan import bound_of, planned
        from fl_app.theory.trajectory import estimate

        if figure is not None and figure.suffix not in FIGURE_SUFFIXES:
            raise ConfigError(f"--figure {figure}: write a file that ends in {', '.join(FIGURE_SUFFIXES)}")

        with progress_bar("round", rounds) as step:
            constants = estimate(settings, rounds, samples=samples, on_round=lambda _t: step())
        given = planned(settings, constants, exchanged)
        found = {**bound_of(given), "constants": constants.to_dict()}
        if figure is not None:
            draw_bound(given, figure)
        if as_json:
            typer.echo(json.dumps(found))
            return
        table = Table("term of Theorem 1", "value", "share", box=SIMPLE)
        total = sum(found["terms"].values())
        for name, value in found["terms"].items():
            table.add_row(name, f"{value:.3g}", f"{100 * value / total:.1f} %")
        Console().print(table)
        typer.echo(f"dominates: {found['dominates']}; mean age {found['mean_age']:.2f} rounds")
        for name, limit in found["rate_limits"].items():
            verdict = "holds" if found["rates"][name] <= limit else "is exceeded: the theorem does not apply"
            typer.echo(f"{name} = {found['rates'][name]:g}, at most {limit:.3g} by the theorem: {verdict}")


@theory.command()
def advise(
    config: Config = None,
    changes: Set = None,
    trial: Annotated[int, typer.Option(min=4, help="Rounds of the trial that measures gradients and noise.")] = 10,
    samples: Annotated[int, typer.Option(min=1, help="Samples of each client for a gradient, at most.")] = 100,
    as_json: Json = False,
) -> None:
    """Recommend k_M/k and H for a config from a short trial of it, and say why.

    The ratio is the one that accumulates the least noise; what large entries are worth beyond that is not in it.

    Example: fl_app theory advise cifar10-small --set data.root=/data
    """
    with clear_errors():
        settings = settings_from(config, changes, {})
        from fl_app.theory.advice import advise as advise_on

        with progress_bar("round", trial) as step:
            found = advise_on(settings, trial, samples, step)
        if as_json:
            typer.echo(json.dumps(found))
            return
        if found["ratios"]:
            ratios = Table(
                "k_M/k", "noise / dense", "power kept fresh", "mean age (rounds)", "bound of error", box=SIMPLE
            )
            for one in found["ratios"]:
                cells = (one["noise_gain"], one["captured"], one["mean_age"], one["error"])
                ratios.add_row(f"{one['k_m_ratio']:g}", *(f"{cell:.3g}" for cell in cells))
            Console().print(ratios)
        steps = Table("H", "bound of Theorem 1", "largest term", box=SIMPLE)
        for one in found["steps"]:
            steps.add_row(str(one["H"]), f"{one['bound']:.3g}", one["dominates"])
        if found["steps"]:
            Console().print(steps)
        for line in found["reasons"]:
            typer.echo(f"- {line}")


_EXCHANGE_NAMES = {
    "k0": "entries exchanged in a round (k_0)",
    "p1": "an entry leaves the magnitude set (p_1)",
    "p2": "another entry enters it (p_2)",
    "entry_bias": "bias of the entries that enter",
    "exit_bias": "bias of the entries that leave",
    "return_share": "entries that return after one round outside",
    "mean_aou": "mean age at the end (rounds)",
    "predicted_aou": "mean age by Lemma 1's limit (rounds)",
}
_REGIME_NAMES = {
    "client_rms": "RMS of an entry that a client sends",
    "mean_rms": "RMS of an entry of the mean over the clients",
    "noise_rms": "noise on an entry of the mean",
    "noise_to_gradient": "noise to gradient",
}
_CONSTANT_NAMES = {
    "local_squared": "L~^2, one client's gradient",
    "global_squared": "L_g^2, the global gradient",
    "heterogeneity_squared": "L_h^2, clients apart from their mean",
    "gradient_bound": "G, largest stochastic gradient",
    "sgd_std": "sigma_s, scatter of stochastic gradients",
    "heterogeneity_std": "sigma_g, clients' gradients apart",
    "entry_rms": "RMS of an entry that a client sends",
    "loss": "loss before training",
}


def show(as_json: bool, found: dict[str, Any], names: dict[str, str]) -> None:
    """Print figures as one JSON object, or as a table with their names."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table("figure", "value", box=SIMPLE)
    for key, name in names.items():
        table.add_row(name, "-" if found[key] is None else f"{found[key]:.4g}")
    Console().print(table)


@contextmanager
def wrong_options() -> Iterator[None]:
    """Report a number that a formula does not allow as a wrong option; all numbers come from the command line."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(str(error)) from None


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on stderr; call the result after each step."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


_POLICIES: list[tuple[str, float | None]] = [
    ("round-robin", None),
    ("fair-k", 0.25),
    ("fair-k", 0.5),
    ("fair-k", 0.75),
    ("top-rand", 0.75),
    ("age-top-k", None),
    ("top-k", None),
]

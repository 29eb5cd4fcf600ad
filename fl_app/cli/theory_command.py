# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the commands `fl_app theory ...`: the paper's theory as tools for planning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from fl_app.cli.console import Json, clear_errors
from fl_app.config import ConfigError

if TYPE_CHECKING:
    from fl_app.theory.aou import AgeDistribution

theory = typer.Typer(no_args_is_help=True, help="Compute ages, noise and convergence by the paper's theory.")

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
    with clear_errors():
        from fl_app.theory import aou as ages
        from fl_app.theory.exchange import Exchange

        try:
            exchange = Exchange(d, k, k_m, k0)
        except ValueError as error:
            raise ConfigError(str(error)) from None
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
    with clear_errors():
        from fl_app.theory import accumulation

        try:
            sizes = [float(part) for part in s.split(",")]
        except ValueError:
            raise ConfigError(f"--s must be numbers separated by commas, got {s!r}") from None
        rows: list[dict[str, Any]] = []
        for policy, ratio in _POLICIES:
            row: dict[str, Any] = {"policy": policy, "k_m_ratio": ratio, "closed_form": [], "simulation": []}
            for size in sizes:
                setting = accumulation.Setting(size, rho, 0.75 if ratio is None else ratio, rounds)
                if policy in accumulation.KNOWN_POLICIES:
                    row["closed_form"].append(accumulation.noise_gain(policy, setting).total)
                if simulate:
                    row["simulation"].append(accumulation.simulate(policy, setting).noise_gain)
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


_POLICIES: list[tuple[str, float | None]] = [
    ("round-robin", None),
    ("fair-k", 0.25),
    ("fair-k", 0.5),
    ("fair-k", 0.75),
    ("top-rand", 0.75),
    ("age-top-k", None),
    ("top-k", None),
]

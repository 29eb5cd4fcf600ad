# SPDX-License-Identifier: GPL-3.0-or-later
"""List the parts that a config can name, and where each comes from."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from fl_app.air.registry import AIRS
from fl_app.cli.console import Json
from fl_app.core.catalog import MODELS, POLICIES, TASKS
from fl_app.data.registry import DATASETS
from oac_blocks.dsp.waveform.schemes.registry import SCHEMES
from oac_blocks.plugins import Offer, Registry


class Kind(StrEnum):
    """Name what can be listed."""

    MODELS = "models"
    DATA = "data"
    TASKS = "tasks"
    POLICIES = "policies"
    AIRS = "airs"
    SCHEMES = "schemes"


REGISTRIES: dict[Kind, Registry[Any]] = {
    Kind.MODELS: MODELS,
    Kind.DATA: DATASETS,
    Kind.TASKS: TASKS,
    Kind.POLICIES: POLICIES,
    Kind.AIRS: AIRS,
    Kind.SCHEMES: SCHEMES,
}


def list_parts(
    kind: Annotated[Kind | None, typer.Argument(help="What to list. Default: everything.")] = None,
    as_json: Json = False,
) -> None:
    """List models, data sets, tasks, policies, airs or schemes that a config can name, and where they come from.

    Anything that can be imported will do as well, by an import string: [model] name = "mypackage.nets:build".

    Example: fl_app list policies
    """
    kinds = list(REGISTRIES) if kind is None else [kind]
    offers = {name: REGISTRIES[name].offers() for name in kinds}
    if as_json:
        typer.echo(json.dumps({name: [vars(offer) for offer in found] for name, found in offers.items()}))
        return
    for name, found in offers.items():
        Console().print(_table(name, found, REGISTRIES[name].group))


def _table(kind: str, offers: list[Offer], group: str) -> Table:
    table = Table("name", "from", "import string", box=SIMPLE, title=f"{kind} (entry points: {group})")
    table.title_justify = "left"
    for offer in offers:
        table.add_row(offer.name, offer.origin, offer.target)
    return table

# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `fl_app radio`: a flowgraph without a screen, in a process that is this one from then on."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fl_app.config import ConfigError
from fl_app.console import Config, Set, clear_errors, say, settings_from
from oac_blocks.flows.endpoints import Endpoints, bench_endpoints, flowgraph_environment


def radio(
    config: Config = None,
    changes: Set = None,
    loopback: Annotated[
        int | None, typer.Option(min=1, max=63, help="No radio: so many clients and the server in one flowgraph.")
    ] = None,
    uri: Annotated[str | None, typer.Option(help="One Pluto: ip:192.168.2.1, usb:1.2.5.")] = None,
    client: Annotated[int | None, typer.Option(min=0, help="The Pluto is this client; without it, the server.")] = None,
    clients: Annotated[int, typer.Option(min=1, max=63, help="How many clients the bench has.")] = 2,
    frequency: Annotated[float, typer.Option(help="Hz, one that you may transmit on. Nothing is sent without.")] = 0.0,
    rate: Annotated[float, typer.Option(help="Samples a second, the same for all radios.")] = 2.5e6,
    rx_gain: Annotated[float, typer.Option(help="dB.")] = 40.0,
    tx_attenuation: Annotated[float, typer.Option(help="dB.")] = 10.0,
    votes: Annotated[int, typer.Option(min=1, help="In a burst, the same for all.")] = 21_880,
    host: Annotated[str, typer.Option(help="Where the server's flowgraph is, or listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1024, max=65_000, help="The first of the server's four ports.")] = 7790,
    folder: Annotated[Path | None, typer.Option(help="For the loopback's sockets. Default: a new one.")] = None,
) -> None:
    """Run the flowgraph of a radio, or of the loopback, without a screen. Ctrl-C ends it.

    Example: fl_app radio --loopback 2 --set air.snr_db=10
    Example: fl_app radio --uri ip:192.168.2.1 --frequency 2.45e9
    """
    with clear_errors():
        if (loopback is None) == (uri is None):
            raise ConfigError("say either --loopback N or --uri URI")
        if loopback is not None:
            _run("loopback_service", *_loopback(settings_from(config, changes, {}), loopback, folder))
        radio_settings = {
            "uri": uri, "frequency_hz": frequency, "sample_rate_hz": rate, "rx_gain_db": rx_gain,
            "tx_attenuation_db": tx_attenuation, "clients": clients, "votes": votes,
        }  # fmt: skip
        endpoints = bench_endpoints(host, port, client)
        for name, endpoint in endpoints.items():
            say(f"{name} {endpoint}")
        _run("pluto_service", "server" if client is None else str(client), radio_settings, endpoints)


def _loopback(settings: Any, clients: int, folder: Path | None) -> tuple[str, dict[str, Any]]:
    import tempfile

    from fl_app.air.loopback_settings import loopback_settings

    place = Path(tempfile.mkdtemp(prefix="gr-oac-")) if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    for name, endpoint in dataclasses.asdict(Endpoints.in_folder(place)).items():
        say(f"{name} {endpoint}")
    return str(place), loopback_settings(settings.air, clients, settings.run.seed)


def _run(service: str, *arguments: str | dict[str, Any]) -> None:
    """Become the flowgraph's process: signals reach it, and there is nobody in between."""
    texts = [argument if isinstance(argument, str) else json.dumps(argument) for argument in arguments]
    sys.stdout.flush()
    command = [sys.executable, "-m", f"oac_blocks.flows.{service}", *texts]
    os.execve(sys.executable, command, flowgraph_environment())

# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `fl_app radio`: a flowgraph without a screen, as a process that ends with this one."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fl_app.config import ConfigError, Settings
from fl_app.console import Config, Set, clear_errors, say, settings_from
from fl_app.link.address import is_local
from oac_blocks.flows.endpoints import Endpoints, bench_endpoints, flowgraph_environment

BETWEEN_FLOWGRAPHS = ("status", "orders")


class RadioCommandError(RuntimeError):
    """The flowgraph ended by itself; the message says how."""


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
    arm_seconds: Annotated[
        float, typer.Option(min=0, help="How long a round waits for votes. Loopback: 0 waits for all clients.")
    ] = 2.0,
    host: Annotated[str, typer.Option(help="Where the server's flowgraph is, or listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1024, max=65_000, help="The first of the bench's ports.")] = 7790,
    keys: Annotated[
        Path | None, typer.Option(help="The keys that `fl_app keys` made, for radios on several machines.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="For the loopback's sockets. Default: a new one.")] = None,
) -> None:
    """Run the flowgraph of a radio, or of the loopback, without a screen. Ctrl-C ends it.

    Server and clients take the address that it prints: fl_app server --radio ADDRESS, fl_app client --radio ADDRESS.

    Example: fl_app radio --loopback 2 --set air.snr_db=10
    Example: fl_app radio --uri ip:192.168.2.1 --frequency 2.45e9
    Example: fl_app radio --uri ip:192.168.3.1 --frequency 2.45e9 --client 0
    """
    with clear_errors(), ExitStack() as stack:
        if (loopback is None) == (uri is None):
            raise ConfigError("say either --loopback N or --uri URI")
        if loopback is not None:
            place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gr-oac-")))
            say(f"address ipc://{place}")
            _run("loopback_service", *_loopback(settings_from(config, changes, {}), loopback, arm_seconds, place))
            return
        radio_settings = {
            "uri": uri, "frequency_hz": frequency, "sample_rate_hz": rate, "rx_gain_db": rx_gain,
            "tx_attenuation_db": tx_attenuation, "clients": clients, "votes": votes, "arm_seconds": arm_seconds,
        }  # fmt: skip
        endpoints = bench_endpoints(host, port, client)
        say(f"address tcp://127.0.0.1:{port}")
        if keys is not None or not is_local(endpoints["status"]):
            endpoints |= stack.enter_context(_relayed(endpoints, keys, client))
        _run("pluto_service", "server" if client is None else str(client), radio_settings, endpoints)


def _loopback(settings: Settings, clients: int, arm_seconds: float, folder: Path) -> tuple[str, dict[str, Any]]:
    from fl_app.air.loopback_settings import loopback_settings

    folder.mkdir(parents=True, exist_ok=True)
    for name, endpoint in dataclasses.asdict(Endpoints.in_folder(folder)).items():
        say(f"{name} {endpoint}")
    return str(folder), {
        **loopback_settings(settings.air, clients, settings.run.seed),
        "arm_seconds": arm_seconds,
    }


@contextmanager
def _relayed(outside: dict[str, str], keys: Path | None, client: int | None) -> Iterator[dict[str, str]]:
    """The flowgraph's sockets to other flowgraphs stay on this machine, and a relay with keys carries them on."""
    if keys is None:
        raise ConfigError(
            f"{outside['status']} is another machine, or open to others: the way needs keys (`fl_app keys`, --keys)"
        )
    from fl_app.link.keys import client_keys, server_keys
    from fl_app.link.relay import Relay

    with tempfile.TemporaryDirectory(prefix="gr-oac-") as place:
        inside = {name: f"ipc://{place}/{name}" for name in BETWEEN_FLOWGRAPHS}
        relay = Relay(inside, outside, server_keys(keys) if client is None else client_keys(keys, client))
        try:
            yield inside
        finally:
            relay.close()


def _run(service: str, *arguments: str | dict[str, Any]) -> None:
    """The flowgraph as a process, until it ends or a signal ends this one."""
    texts = [argument if isinstance(argument, str) else json.dumps(argument) for argument in arguments]
    command = [sys.executable, "-m", f"oac_blocks.flows.{service}", *texts]
    asked = False

    def on_signal(_number: int, _frame: object) -> None:
        nonlocal asked
        asked = True
        process.terminate()

    process = subprocess.Popen(command, env=flowgraph_environment(), process_group=0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    code = process.wait()
    if code and not asked:
        raise RadioCommandError(f"the flowgraph ended (exit status {code})")

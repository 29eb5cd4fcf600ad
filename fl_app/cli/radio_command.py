# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `fl_app radio`: a flowgraph without a screen, as a process that ends with this one."""

from __future__ import annotations

import dataclasses
import fcntl
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import zmq

from fl_app.air.live.loopback_settings import burst_votes, loopback_settings
from fl_app.cli.console import Config, Set, clear_errors, say, settings_from
from fl_app.cli.radio_process import RadioCommandError, run_flowgraph
from fl_app.config import ConfigError, Settings
from fl_app.link.address import is_local
from fl_app.processes.private_folder import PrivateFolder
from oac_blocks.bench.config import SIMULATED_RATE_HZ
from oac_blocks.bench.flows.endpoints import (
    BENCH_PORT,
    BETWEEN_FLOWGRAPHS,
    RECORD,
    Endpoints,
    bench_endpoints,
    client_folder,
)
from oac_blocks.bench.settings import RADIO_RATE_HZ
from oac_blocks.radio.registry import driver_for
from oac_blocks.record.options import MOST_MB, Record, RecordMb
from oac_blocks.record.recorder import check_folder
from oac_blocks.stop_signal import StopSignal

if TYPE_CHECKING:
    from fl_app.link.relay import Relay

LOCK = "lock"
POWER_ON_TX_GAIN_DB = -10.0  # the gain that a Pluto's transmitter has after power-on


def radio(
    config: Config = None,
    changes: Set = None,
    loopback: Annotated[
        int | None, typer.Option(min=1, max=63, help="No radio: so many clients and the server in one flowgraph.")
    ] = None,
    uri: Annotated[
        str | None, typer.Option(help="One Pluto: ip:192.168.2.1, usb:1.2.5. Default: that of [radios].")
    ] = None,
    client: Annotated[int | None, typer.Option(min=0, help="The Pluto is this client; without it, the server.")] = None,
    clients: Annotated[
        int | None, typer.Option(min=1, max=63, help="How many clients the bench has. Default: clients.n.")
    ] = None,
    frequency: Annotated[
        float | None,
        typer.Option(
            help="Hz, one that you may transmit on. Nothing is sent without. Default: radios.frequency_hz.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Samples a second, the same for all radios. Default: air.sample_rate_hz where the config sets one, "
            "otherwise 2.5e6."
        ),
    ] = None,
    rx_gain: Annotated[float | None, typer.Option(help="dB. Default: radios.rx_gain_db, 40.")] = None,
    tx_gain: Annotated[
        float | None,
        typer.Option(help="dB, 0 is full power. Default: radios.tx_gain_db; -10 where the config names no radios."),
    ] = None,
    tx_attenuation: Annotated[
        float | None, typer.Option(help="dB: --tx-gain with the opposite sign, as older versions called it.")
    ] = None,
    votes: Annotated[
        int | None, typer.Option(min=1, help="The most in a burst, the same for all. Default: 228 symbols of them.")
    ] = None,
    arm_seconds: Annotated[
        float, typer.Option(min=0.1, help="How long a round waits for votes; those who have none are measured.")
    ] = 2.0,
    host: Annotated[str, typer.Option(help="Where the server's flowgraph is, or listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1024, max=65_000, help="The first of the bench's ports.")] = BENCH_PORT,
    keys: Annotated[
        Path | None, typer.Option(help="The keys that `fl_app keys` made, for radios on several machines.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="For sockets that this user alone reaches. Default: a loopback's new one.")
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(help="A folder for the sockets of all flowgraphs of a bench on this machine, instead of ports."),
    ] = None,
    record: Record = None,
    record_mb: RecordMb = MOST_MB,
) -> None:
    """Run the flowgraph of a radio, or of the loopback, without a screen. Ctrl-C ends it.

    Server and clients take the address that it prints: fl_app server --radio ADDRESS, fl_app client --radio ADDRESS.

    Example: fl_app radio --loopback 2 --set air.snr_db=10
    Example: fl_app radio bench.toml
    Example: fl_app radio bench.toml --client 0
    Example: fl_app radio --uri ip:192.168.3.1 --frequency 2.45e9 --client 0
    Example: fl_app radio bench.toml --record rec
    """
    with clear_errors(), ExitStack() as stack:
        ended = StopSignal()  # so that nothing is left behind, wherever the signal comes
        settings = settings_from(config, changes, {})
        given = {"frequency_hz": frequency, "rx_gain_db": rx_gain, "tx_gain_db": _tx_gain_db(tx_gain, tx_attenuation)}
        radios = settings.radios.with_values(**{key: value for key, value in given.items() if value is not None})
        if loopback is not None and uri is not None:
            raise ConfigError("say either --loopback N or --uri URI")
        if loopback is None and uri is None and not radios.is_named:
            raise ConfigError("say either --loopback N or --uri URI, or a CONFIG whose [radios] names the radios")
        if settings.air.scheme.coherent:
            raise ConfigError(
                f"[air] mode = {settings.air.mode!r}: this flowgraph compares energies, mode 'onebit' or 'energy'"
            )
        recording = _recording(record, record_mb, client)
        if loopback is not None:
            place = folder or stack.enter_context(PrivateFolder("gr-oac-"))
            _say_endpoints(f"ipc://{place}", dataclasses.asdict(stack.enter_context(_in_folder(place))))
            loopback_air = loopback_settings(settings.air, loopback, settings.run.seed) | {"arm_seconds": arm_seconds}
            run_flowgraph(ended, [], "loopback_service", [str(place), loopback_air, *recording])
            return
        clients = settings.clients.n if clients is None else clients
        if client is not None and client >= clients:
            raise ConfigError(f"--client {client}: with --clients {clients} they are 0 to {clients - 1}")
        rate_hz = radio_rate_hz(settings) if rate is None else rate
        if uri is None:
            if fault := radios.fault(clients, rate_hz):
                raise ConfigError(f"[radios] {fault}")
            uri = radios.server if client is None else radios.clients[client]
        _check_frequency(uri, radios.frequency_hz)
        is_set = radios.is_named or given["tx_gain_db"] is not None
        radio_settings = {
            **settings.air.agreed(),
            "uri": uri, "sample_rate_hz": rate_hz, "frequency_hz": radios.frequency_hz, "rx_gain_db": radios.rx_gain_db,
            "tx_gain_db": radios.tx_gain_db if is_set else POWER_ON_TX_GAIN_DB, "crystal_ppm": radios.crystal_ppm,
            "clients": clients, "votes": burst_votes(settings.air) if votes is None else votes,
            "arm_seconds": arm_seconds, "scheme": settings.air.scheme.waveform,
        }  # fmt: skip
        endpoints = bench_endpoints(host, port, client)
        if bench is not None:
            endpoints |= {name: f"ipc://{bench / name}" for name in BETWEEN_FLOWGRAPHS}
            folder = bench if client is None else client_folder(bench, client)
        if folder is not None:
            inside = dataclasses.asdict(stack.enter_context(_in_folder(folder)))
            endpoints |= {name: inside[name] for name in endpoints.keys() & inside.keys()}
        _try_to_bind(endpoints if client is None else {"payload": endpoints["payload"]})
        said, relays = endpoints, []
        if keys is not None or not is_local(endpoints["status"]):
            relay, inside = stack.enter_context(_relayed(endpoints, keys, client))
            relays, endpoints = [relay], endpoints | inside
        _say_endpoints(f"tcp://127.0.0.1:{port}" if folder is None else f"ipc://{folder}", said)
        arguments: list[str | dict[str, Any]] = ["server" if client is None else str(client), radio_settings, endpoints]
        arguments += recording
        run_flowgraph(ended, relays, "pluto_service", arguments, f"the radio at {uri}")


def _recording(folder: Path | None, most_mb: float, client: int | None) -> list[str]:
    """Return the option of a flowgraph's process that makes it record."""
    if folder is None:
        return []
    if client is not None:
        raise ConfigError("--record writes what the server receives: give it to the server's `fl_app radio`")
    check_folder(folder)
    return [RECORD + json.dumps({"folder": str(folder.resolve()), "most_mb": most_mb})]


def radio_rate_hz(settings: Settings) -> float:
    """Return the rate that radios run at: that of [air], unless it is the default for simulations.

    No Pluto sustains that over USB.
    """
    rate = settings.air.sample_rate_hz
    return RADIO_RATE_HZ if rate == SIMULATED_RATE_HZ else rate


def _check_frequency(uri: str, frequency_hz: float) -> None:
    try:
        tunable = driver_for(uri).limits.rx_lo_hz
    except ValueError as error:
        raise ConfigError(f"--uri {uri}: {error}") from None
    if frequency_hz not in tunable:
        allowed = f"one that you may transmit on, {tunable}; nothing is sent before you name one"
        raise ConfigError(f"--frequency {frequency_hz:g}: say {allowed}")


def _tx_gain_db(tx_gain: float | None, tx_attenuation: float | None) -> float | None:
    if tx_attenuation is None:
        return tx_gain
    if tx_gain is not None:
        raise ConfigError("--tx-gain and --tx-attenuation say the same thing: give --tx-gain alone")
    return -tx_attenuation


@contextmanager
def _in_folder(folder: Path) -> Iterator[Endpoints]:
    """The folder's sockets, for this flowgraph alone; they go with it."""
    try:
        endpoints = Endpoints.in_folder(folder)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:  # a socket's file can be taken over without a word: this cannot
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RadioCommandError(f"another `fl_app radio` uses {folder}; give each a --folder of its own") from None
        try:
            yield endpoints
        finally:
            for name in (*dataclasses.asdict(endpoints), *BETWEEN_FLOWGRAPHS, LOCK):
                (folder / name).unlink(missing_ok=True)


def _try_to_bind(endpoints: dict[str, str]) -> None:
    """GNU Radio's sockets do not say that an address is taken; these do."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        for endpoint in endpoints.values():
            if endpoint.startswith("tcp://"):
                with context.socket(zmq.PULL) as trial:
                    trial.bind(endpoint)
    except zmq.ZMQError as error:
        hint = "is another `fl_app radio` running? Say --port"
        raise RadioCommandError(f"cannot listen on {endpoint}: {error.strerror}; {hint}") from None
    finally:
        context.destroy(linger=0)


def _say_endpoints(address: str, endpoints: dict[str, str]) -> None:
    say(f"address {address}")
    for name, endpoint in endpoints.items():
        say(f"{name} {endpoint}")


@contextmanager
def _relayed(outside: dict[str, str], keys: Path | None, client: int | None) -> Iterator[tuple[Relay, dict[str, str]]]:
    """The flowgraph's sockets to other flowgraphs stay on this machine, and a relay with keys carries them on."""
    if keys is None:
        raise ConfigError(
            f"{outside['status']} is another machine, or open to others: the way needs keys (`fl_app keys`, --keys)"
        )
    from fl_app.link.keys import client_keys, server_keys
    from fl_app.link.relay import Relay

    with PrivateFolder("gr-oac-") as place:
        inside = {name: f"ipc://{place}/{name}" for name in BETWEEN_FLOWGRAPHS}
        relay = Relay(inside, outside, server_keys(keys) if client is None else client_keys(keys, client))
        try:
            yield relay, inside
        finally:
            relay.close()

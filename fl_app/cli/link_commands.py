# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the link: server, client, keys, up. What takes long to import is imported when a command needs it."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fl_app.cli.console import Config, Json, Out, Set, clear_errors, say, settings_from, train_and_show
from fl_app.cli.web import Port, Web, live_page
from fl_app.config import ConfigError, Settings, load_settings
from fl_app.link.address import reachable
from fl_app.processes.interrupt import EXIT_CODE, end_at_once, stop_on_signal

if TYPE_CHECKING:
    from fl_app.runs.metrics import RoundFigures
    from fl_app.runs.run_folder import RunFolder

Bind = Annotated[str | None, typer.Option(help="Where to listen: tcp://HOST:PORT or ipc://PATH.")]
Keys = Annotated[Path | None, typer.Option(help="The folder of the keys that `fl_app keys` made.")]
Air = Annotated[str | None, typer.Option(help="ideal, fading, waveform, gnuradio or pluto.")]
RADIO_HELP = "Votes go by radio: the address that `fl_app radio` printed, tcp://127.0.0.1:7790 or ipc://FOLDER."
Radio = Annotated[str | None, typer.Option(metavar="ADDRESS", help=RADIO_HELP)]
Resume = Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with the run in this folder.")]


def register(app: typer.Typer) -> None:
    """Add them to `fl_app`."""
    for command in (server, client, keys, up):
        app.command()(command)


def server(
    config: Config = None,
    changes: Set = None,
    bind: Bind = None,
    keys: Keys = None,
    out: Out = None,
    resume: Resume = None,
    air: Air = None,
    radio: Radio = None,
    audit_votes: Annotated[
        bool, typer.Option("--audit-votes", help="Clients with radios tell us their votes too, to count wrong ones.")
    ] = False,
    as_json: Json = False,
    status_lines: Annotated[bool, typer.Option("--status-lines", hidden=True)] = False,
) -> None:
    """Train with clients that connect from elsewhere.

    Example: fl_app server quickstart --bind tcp://0.0.0.0:7780 --keys keys
    Example: fl_app server quickstart --radio tcp://127.0.0.1:7790
    """
    with clear_errors():
        if radio is not None:
            _check_radio(radio)
        name = air
        if radio is not None and resume is None and air is None:
            name = None if load_settings(config, changes or []).has_flowgraphs else "gnuradio"
        settings, folder = run_of(config, changes, out, resume, {"air.name": name})
        radio = radio or radio_address(settings)
        # How this machine is reached is its own business, in a resumed run as well.
        here = {"bind": bind, "radio": radio, "audit_votes": audit_votes or None}
        settings = settings.with_values(link={key: value for key, value in here.items() if value is not None})
        from fl_app.link.keys import server_keys
        from fl_app.link.router import RouterLink
        from fl_app.link.server import serve

        link = RouterLink(settings.link.bind, server_keys(keys) if keys else None, say)

        def train(
            settings: Settings, folder: Any, on_round: Any, should_stop: Any, before_keeping: Any
        ) -> dict[str, Any] | None:
            def show(row: RoundFigures) -> None:
                on_round(row)
                tell("round", asdict(row))

            def on_status(status: dict[str, Any]) -> None:
                tell("status", status)

            result = serve(settings, folder, show, should_stop, link, on_status, before_keeping)
            if result is not None:
                tell("result", result)
            return result

        def tell(event: str, content: dict[str, Any]) -> None:
            if status_lines:
                typer.echo(json.dumps({"event": event, **content}))

        try:
            own = {"--bind": bind, "--keys": keys, "--radio": radio}
            words = [str(word) for option, value in own.items() if value is not None for word in (option, value)]
            words = ["fl_app", "server", *words, *(["--audit-votes"] if audit_votes else []), "--resume"]
            again = lambda path: shlex.join([*words, str(path)])  # noqa: E731
            train_and_show(settings, folder, as_json or status_lines, train, again)
        finally:
            link.close()


def radio_address(settings: Settings) -> str | None:
    """Return where the flowgraph beside this process is by default, if radios have one each: as `fl_app radio` does."""
    from oac_blocks.bench.flows.endpoints import BENCH_PORT

    return settings.link.radio or (f"tcp://127.0.0.1:{BENCH_PORT}" if settings.has_flowgraphs else None)


def _check_radio(address: str) -> None:
    """Before a run's folder is made for it."""
    from fl_app.link.radio_bench import checked
    from oac_blocks.bench.flows.endpoints import Endpoints

    checked(address, Endpoints.at)


def client(
    number: Annotated[int, typer.Option("--id", min=0, help="Which of the run's clients this is, from 0.")],
    config: Annotated[
        str | None,
        typer.Argument(
            help="The server's config: the client takes part only in a run of it. Its [link] bind is the default of "
            "--server; with flowgraphs for [radios], votes go to the one that `fl_app radio` runs here."
        ),
    ] = None,
    server: Annotated[str | None, typer.Option(help="The server's endpoint, tcp://HOST:PORT.")] = None,
    keys: Keys = None,
    config_option: Annotated[
        str | None, typer.Option("--config", help="Take part only if the server has this very config.")
    ] = None,
    changes: Set = None,
    data_root: Annotated[str | None, typer.Option(help="Where the data set's files are on this machine.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1.")] = None,
    patience_seconds: Annotated[float, typer.Option(min=1, help="How long to wait for a silent server.")] = 600.0,
    no_training: Annotated[bool, typer.Option("--no-training", help="Draw votes at random, to try a link.")] = False,
    radio: Radio = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE",
            help="Package or import string that the server's config may name; this machine imports its own copy.",
        ),
    ] = None,
) -> None:
    """Take part in a run: train on this client's share of the data, and reconnect when the server comes back.

    Example: fl_app client --server tcp://192.168.1.2:7780 --id 0 --keys keys
    Example: fl_app client --server tcp://127.0.0.1:7780 --id 0 --radio tcp://127.0.0.1:7790
    Example: fl_app client bench.toml --id 0
    """
    with clear_errors():
        if config is not None and config_option is not None:
            raise ConfigError("CONFIG and --config say the same thing: give one of them")
        named = config or config_option
        if changes and named is None:
            raise ConfigError("--set changes the config that --config names: give both")
        settings = None if named is None else load_settings(named, changes or [])
        if server is None:
            if settings is None or config is None:
                raise ConfigError(
                    "say --server tcp://HOST:PORT, or a CONFIG whose [link] bind is the server's endpoint"
                )
            server = reachable(settings.link.bind)
        if config is not None and settings is not None:
            radio = radio or radio_address(settings)
        from fl_app.link.caller import Caller
        from fl_app.link.client import STOPPED, Client
        from fl_app.link.keys import client_keys
        from fl_app.link.trainer import ModelTrainer, RandomVoter, Trainer
        from fl_app.link.trust import import_strings_of
        from fl_app.runs.run_hash import config_hash

        local: dict[str, dict[str, Any]] = {"run": {"workers": 0}}
        if data_root is not None:
            local["data"] = {"root": data_root}
        if device is not None:
            local["run"]["device"] = device
        trusted = [*(trust or []), *([] if settings is None else import_strings_of(settings))]
        trainer: Trainer = ModelTrainer(number, local, trusted)
        if no_training:
            trainer = RandomVoter(number, trusted=trusted)
        own_hash = "" if settings is None else config_hash(settings)
        own_radio = None
        if radio is not None:
            from fl_app.link.radio_bench import OwnRadio

            own_radio = OwnRadio(radio, number)
        own_keys = client_keys(keys, number) if keys else None
        taking_part = Client(server, Caller(number, own_hash, own_radio), trainer, own_keys, tell=say)
        with stop_on_signal(lambda _text: None) as should_stop:
            should_stop.finish_rounds()  # in its own way: the client says goodbye to the server
            try:
                reason = taking_part.run(patience_seconds, should_stop)
            except KeyboardInterrupt:
                reason = STOPPED
            finally:
                taking_part.close()
                if own_radio is not None:
                    own_radio.close()
            say(f"client {number}: {reason}")
        if should_stop():
            end_at_once("")  # what is left to wait for is the training of a round that nobody waits for
            raise typer.Exit(EXIT_CODE)


def keys(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")],
    clients: Annotated[int, typer.Option(min=1, max=10_000, help="How many clients, N.")],
) -> None:
    """Make the keys of a server and its clients.

    The server needs server.key and clients.toml; client 3 needs client-3.key and server.pub, and nothing else.

    Example: fl_app keys keys --clients 2
    """
    with clear_errors():
        from fl_app.link.keys import make_keys

        for path in make_keys(folder, clients):
            typer.echo(path)


def up(
    config: Config = None,
    changes: Set = None,
    out: Out = None,
    resume: Resume = None,
    air: Air = None,
    as_json: Json = False,
    no_training: Annotated[bool, typer.Option("--no-training", help="Clients draw their votes at random.")] = False,
    web: Web = False,
    port: Port = None,
) -> None:
    """Start server and clients on this machine, and show them on one screen. Ctrl-C takes all of it down.

    With [air] name = "pluto" and [radios] transport = "flowgraphs", the flowgraph of each radio is started as well.

    Example: fl_app up quickstart --set clients.n=4
    Example: fl_app up bench.toml
    """
    with clear_errors():
        settings, folder = run_of(config, changes, out, resume, {"air.name": air})
        from fl_app.cli.up import bring_up

        with live_page(web, port, *folder.page):
            code = bring_up(settings, folder, as_json, no_training)
        if code:
            raise typer.Exit(code)


def run_of(
    config: str | None, changes: list[str] | None, out: Path | None, resume: Path | None, options: dict[str, Any]
) -> tuple[Settings, RunFolder]:
    """The settings and the folder of a new run, or of an earlier one."""
    from fl_app.runs.run_folder import RunFolder

    if resume is None:
        settings = settings_from(config, changes, options)
        return settings, RunFolder.plan(settings, out)
    given = {"CONFIG": config, "--set": changes, "--out": out, **options}
    if any(value is not None and value != [] for value in given.values()):
        raise ConfigError("--resume goes on with a run as it was begun, and takes neither a config nor changes to it")
    folder = RunFolder.open(resume)
    return folder.settings(), folder

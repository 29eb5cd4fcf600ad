# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the commands of ``oac-calibrate`` that examine radios without transmitting: probe, loopback-test."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from calibration.cli_common import NOT_MET, Json, clear_errors, console_for

if TYPE_CHECKING:
    from calibration.loopback import LoopbackResult

_LEFT = (
    "Another program left it so. The commands here set it right while they run. Other programs may not, and then "
    "transmit or receive nothing: unplug the radio and plug it in again, or set it with iio_attr."
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command()(probe)
    app.command("loopback-test")(loopback_test)


def probe(
    uris: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[URI|CONFIG]...",
            help="Radios, such as ip:192.168.2.1, or a TOML file with [radios]. Without any, libiio scans for them.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which radios are present and whether they are ready. It changes no setting and transmits nothing.

    Exits with 0 if all named radios are present, or if a scan found some; with 1 if not.

    Example: oac-calibrate probe ip:192.168.2.1 ip:192.168.3.1
    Example: oac-calibrate probe bench.toml
    """
    with clear_errors():
        from oac_blocks.radio import registry
        from oac_blocks.radio.base import RadioError

        named, scanned = [one for word in uris or [] for one in _radios_in(word)[0]], ""
        if not named:
            try:
                named = list(registry.scan())
                scanned = "" if named else "the scan found no radio; name one: oac-calibrate probe ip:192.168.2.1"
            except RadioError as error:
                scanned = str(error)
        found, missing = [], []
        for uri in named:
            try:
                found.append(registry.probe(uri))
            except RadioError as error:
                missing.append(str(error))
    console = console_for(as_json)
    if found:
        switches = list(dict.fromkeys(name for info in found for name in info.switches))
        columns = ("uri", "serial", "firmware", "°C", "rate, Msps", "rates, Msps", *switches)
        table = Table(*columns, box=SIMPLE, padding=(0, 1, 0, 0))
        for info in found:
            rates = f"{info.lowest_rate_hz / 1e6:.3f} to {info.highest_rate_hz / 1e6:.2f}"
            now = f"{info.sample_rate_hz / 1e6:g}"
            switched = [info.switches.get(name, "") for name in switches]
            celsius = "" if info.temperature_celsius is None else f"{info.temperature_celsius:.1f}"
            table.add_row(info.uri, info.serial, info.firmware, celsius, now, rates, *switched)
        console.print(table)
    for info in found:
        if info.hindrances:
            typer.echo(f"{info.uri}: {', '.join(info.hindrances)}. {_LEFT}", err=True)
    for line in [scanned, *missing]:
        if line:
            typer.echo(line, err=True)
    if as_json:
        import dataclasses

        radios = [{**dataclasses.asdict(info), "hindrances": info.hindrances} for info in found]
        typer.echo(json.dumps({"radios": radios, "missing": missing}))
    raise typer.Exit(0 if found and not missing else NOT_MET)


def loopback_test(
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI|CONFIG",
            help="The radio, such as ip:192.168.2.1 or usb:1.2.5; or a TOML file: its radios one by one, at its rate.",
        ),
    ],
    rate: Annotated[
        list[float] | None,
        typer.Option(help="Sample rate, samples per second; may be repeated. Default: 1e6, 2.5e6, 4e6."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Duration of the test at each rate, seconds.")] = 2.0,
    block: Annotated[int, typer.Option(help="Length of a block, samples.")] = 32_768,
    buffers: Annotated[int, typer.Option(help="Number of kernel buffers, each of one block.")] = 8,
    as_json: Json = False,
) -> None:
    """Test at which rates a radio's streams lose no samples, through its digital loopback. It transmits nothing.

    The test sends numbered samples and checks their numbers when they return. Exits with 0 if no rate lost samples.

    Example: oac-calibrate loopback-test ip:192.168.2.1 --rate 1e6 --rate 2.5e6
    Example: oac-calibrate loopback-test bench.toml
    """
    with clear_errors():
        from calibration.loopback import run_loopback
        from oac_blocks.dsp.checks import real
        from oac_blocks.radio import registry
        from oac_blocks.radio.base import RadioConfig, StreamConfig

        real("--seconds", seconds, 0.0, 3600.0, open_low=True)
        stream = StreamConfig(block, buffers, max(1, buffers - 2), 4)
        uris, rate_hz = _radios_in(uri)
        configs = [RadioConfig(one) for one in rate or ((1e6, 2.5e6, 4e6) if rate_hz is None else (rate_hz,))]
        for one in uris:
            for config in configs:
                registry.check_config(one, config)
            registry.probe(one)
        results: dict[str, list[LoopbackResult]] = {one: [] for one in uris}
        for one in uris:
            for config in configs:
                with registry.open_radio(one, config) as radio:
                    radio.set_digital_loopback(True)
                    blocks = stream.primed_blocks + buffers + math.ceil(seconds * config.sample_rate_hz / block)
                    results[one].append(run_loopback(radio, stream, blocks))
    columns = ("Msps", "samples", "breaks", "lost", "silent", "delay, ms", "stream")
    for name, found in results.items():
        table = Table(*columns, box=SIMPLE, padding=(0, 1, 0, 0), title=name if rate_hz else None, title_justify="left")
        for result in found:
            delay = "" if result.delay_samples is None else f"{1e3 * result.delay_samples / result.sample_rate_hz:.1f}"
            verdict = "whole" if result.whole else "nothing came back" if result.delay_samples is None else "broken"
            counts = (result.samples, result.breaks, result.lost_samples, result.silent_samples)
            told = [*(f"{count:,}" for count in counts), delay, verdict]
            table.add_row(f"{result.sample_rate_hz / 1e6:g}", *told)
        console_for(as_json).print(table)
    whole = {name: all(result.whole for result in found) for name, found in results.items()}
    if as_json:
        import dataclasses

        radios = [
            {
                "uri": name,
                "whole": whole[name],
                "rates": [{**dataclasses.asdict(result), "whole": result.whole} for result in found],
            }
            for name, found in results.items()
        ]
        typer.echo(json.dumps({"whole": all(whole.values()), "radios": radios} if rate_hz else radios[0]))
    raise typer.Exit(0 if all(whole.values()) else NOT_MET)


def _radios_in(word: str) -> tuple[list[str], float | None]:
    """Return the radios that an argument (a TOML file or a uri) names, and their rate if it is a config."""
    if not word.endswith(".toml"):
        return [word], None
    from oac_blocks.bench.config import load_bench

    bench = load_bench(word)
    if not bench.radios.is_named:
        raise ValueError(f"{word}: [radios] names no radio; set server and clients")
    return [uri for uri in bench.radios.uris if uri], bench.waveform.sample_rate_hz

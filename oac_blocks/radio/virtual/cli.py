# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``oac-virtual-pluto``."""

from __future__ import annotations

import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from oac_blocks.radio.ad9361 import CHIPS
from oac_blocks.radio.virtual import faults as fault_lines
from oac_blocks.radio.virtual.advertise import advertised
from oac_blocks.radio.virtual.air.air_settings import CHANNELS, MOST_RADIOS, NOISE_FIGURE_DB, spread
from oac_blocks.radio.virtual.faults import RadioFault, parse_fault
from oac_blocks.radio.virtual.server import VirtualPlutos
from oac_blocks.stop_signal import StopSignal

THERMAL, NO_NOISE = "thermal", ("none", "inf")
CLOCKS = ("wall", "lock-step")
# Seconds after which Python switches threads. With the usual 5 ms a block that passes through several is too late.
_SWITCH_SECONDS = 5e-4
_POLL_SECONDS = 0.1
_CLOSE_SECONDS = 1.0  # time that threads have to end; what they still compute is not needed

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oac-virtual-pluto {version('gr-oac')}")
        raise typer.Exit


@app.command()
def main(
    radios: Annotated[int, typer.Option(min=1, max=MOST_RADIOS, help="How many.")] = 1,
    base_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Port of the first radio at one address; the others follow. 0 takes what is free. "
            "[default: port 30431 at 127.0.0.1, 127.0.0.2 and so on].",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="The one address of all radios. Any other than a loopback address lets other machines in. "
            "[default: a loopback address for each]."
        ),
    ] = None,
    advertise: Annotated[
        bool,
        typer.Option(
            "--advertise",
            help="Let libiio's scans find the radios as pluto.local, pluto-2.local and so on, where Avahi runs. "
            "The names are seen in the local network, the radios only on this machine.",
        ),
    ] = False,
    chip: Annotated[
        str, typer.Option(help=f"What a radio is: {', '.join(CHIPS)}. A Pluto is sold as the first.")
    ] = "ad9363a",
    clock: Annotated[str, typer.Option(help="wall: time passes. lock-step: time waits for all radios.")] = "wall",
    expect: Annotated[
        int | None, typer.Option(min=0, help="Lock-step: begin when so many radios stream both ways [default: all].")
    ] = None,
    ppm: Annotated[float, typer.Option(help="Crystals: the first is true, the others go from +ppm to -ppm.")] = 0.0,
    walk: Annotated[float, typer.Option(min=0, help="Random walk of the crystals, ppm after one second.")] = 0.0,
    wobble: Annotated[float, typer.Option(min=0, help="Slow sine in the crystals' rates, ppm over 20 s.")] = 0.0,
    lo_ppm: Annotated[float, typer.Option(help="Likewise of the oscillators, beside their crystals.")] = 0.0,
    snr: Annotated[
        str,
        typer.Option(
            help="In dB, of a signal 12 dB below full scale at TX gain -10 dB in a bandwidth of 2.5 MHz. "
            "thermal: a receiver's own noise. none: exactly no noise."
        ),
    ] = "thermal",
    channel: Annotated[str, typer.Option(help=f"Echoes: {', '.join(CHANNELS)}.")] = "none",
    fading: Annotated[str, typer.Option(help="With a channel: none, rayleigh or rician.")] = "rician",
    coherence: Annotated[float, typer.Option(min=0, help="Seconds until the fading is another; 0: never.")] = 0.0,
    path_loss: Annotated[float, typer.Option(help="In dB: what TX gain and RX gain must make up for.")] = 40.0,
    leakage: Annotated[
        float, typer.Option(help="How loud a radio hears itself, in dB more than others. -200 and less is not at all.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same air.")] = 1,
    fault: Annotated[list[str] | None, typer.Option(help='What goes wrong: "2.5 unplug 1 3". May be repeated.')] = None,
    faults: Annotated[Path | None, typer.Option(help="A file of such lines.")] = None,
    console: Annotated[bool, typer.Option(help="Take such lines from standard input, too.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Serve simulated ADALM-Plutos that share one air, for pyadi-iio, GNU Radio and libiio's tools.

    Prints a line "uri ..." for each, then "ready", and runs until it is stopped. On the wall clock it says at the end
    how many seconds have passed on the air, and how many on the wall clock. Clients can make it compute as much as they
    like: its memory stays below 500 MB, and time on the air runs slower if need be. If it cannot go on, it says why and
    ends with status 1.

    Example: oac-virtual-pluto --radios 3 --ppm 20 --snr 20 --channel indoor
    """
    try:
        if clock not in CLOCKS:
            raise ValueError(f"clock must be one of {', '.join(CLOCKS)}, got {clock!r}")
        settings = spread(
            radios, seed, ppm=ppm, walk_ppm=walk, wobble_ppm=wobble, lo_ppm=lo_ppm, path_loss_db=path_loss, chip=chip,
            channel=channel, fading=fading, coherence_seconds=coherence, leakage_db=leakage if leakage > -200 else None,
            snr_db=_snr_db(snr), noise_figure_db=NOISE_FIGURE_DB if snr == THERMAL else None,
        )  # fmt: skip
        schedule = _schedule([*(fault or []), *(faults.read_text().splitlines() if faults else [])], radios)
        plutos = VirtualPlutos(
            settings, base_port=base_port, host=host, lock_step=clock == "lock-step", expected=expect, faults=schedule
        )
    except (ValueError, OSError) as error:
        text = error.strerror if isinstance(error, OSError) and error.filename is None else error
        typer.echo(f"oac-virtual-pluto: {text}", err=True)
        raise typer.Exit(2) from None
    sys.setswitchinterval(_SWITCH_SECONDS)
    stop = StopSignal()
    with plutos, advertised(plutos.addresses if advertise else []) as can_advertise:
        if advertise and not can_advertise:
            typer.echo("avahi-publish is not installed: the radios are not advertised (Debian: avahi-utils)", err=True)
        for uri in plutos.uris:
            typer.echo(f"uri {uri}")
        typer.echo("ready")
        sys.stdout.flush()
        if console:
            threading.Thread(target=_listen, args=(plutos,), daemon=True).start()
        while not stop.wait(_POLL_SECONDS) and plutos.failure is None:
            pass
        plutos.close(_CLOSE_SECONDS)
        if plutos.failure is not None:
            typer.echo(f"oac-virtual-pluto: {plutos.failure_text}", err=True)
            raise typer.Exit(1)
        if clock == "wall":
            air, wall = plutos.air.now, plutos.air.elapsed_seconds
            typer.echo(
                f"{air:.3f} s passed on the air in {wall:.3f} s of the wall clock ({air / wall:.0%} of real time)"
            )


def _snr_db(text: str) -> float | None:
    if text in (THERMAL, *NO_NOISE):
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--snr must be a number of dB, {THERMAL} or {NO_NOISE[0]}, got {text!r}") from None


def _schedule(lines: list[str], radios: int) -> list[RadioFault]:
    return [parse_fault(line, radios) for line in lines if line.split("#")[0].strip()]


def _listen(plutos: VirtualPlutos) -> None:
    for line in sys.stdin:
        text = line.split("#")[0].strip()
        if text == "help":
            typer.echo(fault_lines.__doc__)
        elif text:
            try:
                plutos.fault(text)
                typer.echo(f"at {plutos.air.now:.3f} s: {text}")
            except ValueError as error:
                typer.echo(str(error), err=True)
        sys.stdout.flush()

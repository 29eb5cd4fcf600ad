# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the command ``oac-calibrate``; slow modules are imported only when a command needs them."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from calibration import cli_probe, cli_radios
from calibration.cli_common import Json, clear_errors, log_file

if TYPE_CHECKING:
    from oac_blocks.loop.closed_loop import ClientView

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_MOST_ROWS = 12  # largest number of clients in a table


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oac-calibrate {version('gr-oac')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Calibrate radios that share no clock, until all answer the trigger within a sample of one another.

    Example: oac-calibrate simulate --clients 5 --log run.jsonl && oac-calibrate report run.jsonl
    """


@app.command()
def simulate(
    clients: Annotated[int, typer.Option(help="Number of clients, 1 to 64.")] = 5,
    ppm: Annotated[float, typer.Option(help="Largest clock error in either direction, ppm.")] = 20.0,
    walk: Annotated[float, typer.Option(help="Standard deviation of a clock's walk after one second, ppm.")] = 0.1,
    snr: Annotated[float, typer.Option(help="SNR of a client's subcarrier and of the trigger, dB.")] = 15.0,
    delay_spread: Annotated[
        float, typer.Option(help="RMS delay spread of Rayleigh multipath, nanoseconds. 0: one path.")
    ] = 0.0,
    turnaround: Annotated[float, typer.Option(help="Time from the trigger to the answer, milliseconds.")] = 20.0,
    sample_rate: Annotated[float, typer.Option(help="Sample rate, samples per second.")] = 20e6,
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 200,
    tolerance: Annotated[float, typer.Option(help="Largest RMS value of the residuals, samples.")] = 0.5,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 1,
    log: Annotated[
        Path | None, typer.Option(help="Write every round to this new file, for the command report.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the loop against virtual radios with their own clocks, offsets, carriers, noise and multipath.

    The estimators are the real ones. Exits with 0 if the tolerance was met with all clients tracking, 1 if not, 2 for
    bad input. Residuals are true values from the simulation, of all payload answers after all clients were first
    tracking.

    Example: oac-calibrate simulate --clients 5 --ppm 20 --walk 0.1 --snr 15 --turnaround 20 --rounds 1000 --json
    """
    with clear_errors():
        from calibration.simulation import Played, loop_for
        from calibration.simulation import simulate as run
        from calibration.virtual import VirtualSettings
        from oac_blocks.dsp.checks import integer, real
        from oac_blocks.dsp.waveform.numerology import Numerology
        from oac_blocks.dsp.waveform.round_layout import RoundLayout
        from oac_blocks.loop.closed_loop import LoopSettings

        num = Numerology(sample_rate_hz=real("--sample-rate", sample_rate, 1e4, 1e9))
        milliseconds = real("--turnaround", turnaround, 0.0, 10_000.0, open_low=True)
        layout = RoundLayout(num, clients, groups=2, answer_samples=round(1e-3 * milliseconds * num.sample_rate_hz))
        radios = VirtualSettings(
            layout,
            ppm=ppm,
            walk_ppm=walk,
            snr_db=snr,
            delay_spread_samples=1e-9 * real("--delay-spread", delay_spread, 0.0) * num.sample_rate_hz,
            seed=seed,
        )
        allowed = real("--tolerance", tolerance, 0.0, LoopSettings().largest_scatter_samples, open_low=True)
        loop = loop_for(radios, LoopSettings(tolerance_samples=allowed))
        integer("--rounds", rounds, 1)
        options = {
            "command": "simulate",
            "ppm": ppm,
            "walk_ppm": walk,
            "snr_db": snr,
            "delay_spread_ns": delay_spread,
            "turnaround_ms": turnaround,
            "tolerance_samples": tolerance,
            "seed": seed,
        }
        with _progress() as progress, log_file(log) as file:
            writer = None
            if file is not None:
                from calibration.log import LogWriter

                writer = LogWriter(file, clients, num.sample_rate_hz, options)
            task = progress.add_task("rounds", total=rounds)

            def each(played: Played) -> None:
                progress.advance(task)
                if writer is not None:
                    writer.round(*played.log_line())

            outcome = run(radios, rounds, loop, each=each)
        result: dict[str, Any] = {
            "clients": clients,
            "rounds": rounds,
            "rounds_to_lock": outcome.rounds_to_lock,
            "residual_rms_samples": outcome.residual_rms_samples,
            "residual_max_samples": outcome.residual_max_samples,
            "all_tracking": outcome.all_tracking,
            "payload_rounds": outcome.kinds.count("payload"),
            "tolerance_samples": tolerance,
        }
        rms = outcome.residual_rms_samples
        result["tolerance_met"] = met = outcome.all_tracking and rms is not None and rms <= tolerance
    console = Console(stderr=as_json)
    console.print(_client_table(loop.clients))
    for remark in _remarks(loop.clients):
        console.print(remark, soft_wrap=True, highlight=False)
    console.print(_sentence(result), soft_wrap=True, highlight=False)
    if log is not None:
        console.print(f"{log}; figures: oac-calibrate report {log}", soft_wrap=True, highlight=False)
    if as_json:
        typer.echo(json.dumps(result))
    raise typer.Exit(0 if met else 1)


@app.command()
def report(
    log: Annotated[Path, typer.Argument(help="A log from the command simulate or track.")],
    out: Annotated[Path | None, typer.Option(help="File of the picture. Default: the log's name with .png.")] = None,
    as_json: Json = False,
) -> None:
    """Draw a log: offsets over rounds, residuals, the clocks' Allan deviation, and errors beside their bounds.

    Example: oac-calibrate report run.jsonl --out run.png
    """
    with clear_errors():
        from calibration.log import read_log
        from calibration.report import draw, summary

        picture = log.with_suffix(".png") if out is None else out
        if picture.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--out must end in .png, .svg or .pdf, got {picture}")
        if picture.resolve() == log.resolve():
            raise ValueError(f"--out must be another file than the log, got {picture}")
        calibration_log = read_log(log)
        result = summary(calibration_log)
        draw(calibration_log, picture)
    if result["note"]:
        typer.echo(f"note: {result['note']}", err=True)
    result["picture"] = str(picture)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        console = Console()
        console.print(_sentence(result), soft_wrap=True, highlight=False)
        console.print(str(picture), soft_wrap=True, highlight=False)


def _client_table(views: tuple[ClientView, ...]) -> Table:
    """Return a table of the clients, with offsets in samples."""
    columns = ("client", "state", "offset", "known to", "drift, ppm", "power, dB", "gain, dB")
    table = Table(*columns, box=SIMPLE, padding=(0, 1, 0, 0))
    for view in views[:_MOST_ROWS]:
        numbers = (view.drift_ppm, view.power_db, view.gain_db)
        texts = (f"{view.offset_samples:+.3f}", f"{view.sigma_samples:.3f}", *(f"{number:+.1f}" for number in numbers))
        table.add_row(str(view.client), view.state, *texts)
    if len(views) > _MOST_ROWS:
        table.caption = f"and {len(views) - _MOST_ROWS} more"
    return table


def _remarks(views: tuple[ClientView, ...]) -> list[str]:
    """Return why clients are not tracking or exceed the tolerance."""
    told = [view for view in views if view.state != "tracking" or "within" not in view.reason]
    lines = [f"client {view.client}: {view.reason}" for view in told[:_MOST_ROWS]]
    return lines if len(told) <= _MOST_ROWS else [*lines, f"and {len(told) - _MOST_ROWS} more"]


def _sentence(result: dict[str, Any]) -> str:
    """Return the result as a sentence."""
    lock, rms = result["rounds_to_lock"], result["residual_rms_samples"]
    if lock is None:
        return f"not all of {result['clients']} clients were tracking at any time in {result['rounds']} rounds"
    text = f"{result['clients']} clients tracking after {lock} rounds"
    measured = result.get("offset_rms_samples")
    if rms is None and measured is not None:  # a log of radios, where the true values are unknown
        text += f"; offsets {measured:.3f} samples RMS as measured, in {result['payload_rounds']} payload rounds"
    elif rms is None:
        text += "; no payload since"
    else:
        text += f"; residual {rms:.3f} samples RMS, {result['residual_max_samples']:.3f} at most"
        text += f", in {result['payload_rounds']} payload rounds"
    if "tolerance_met" in result:
        verdict = "met" if result["tolerance_met"] else "not met"
        text += f"; tolerance of {result['tolerance_samples']:g} {verdict}"
    return text if result["all_tracking"] else text + "; not all are tracking at the end"


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


cli_probe.register(app)
cli_radios.register(app)

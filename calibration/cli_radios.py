# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the commands of ``oac-calibrate`` that run rounds on radios: measure, align, track."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibration.cli_common import NOT_MET, Json, clear_errors, console_for, log_file
from oac_blocks.record.options import MOST_MB, Record, RecordMb

if TYPE_CHECKING:
    from calibration.bench_table import BenchTable
    from calibration.cli_bench import RadioSession
    from oac_blocks.record.recorder import Recorder

Config = Annotated[
    Path | None,
    typer.Argument(
        help="The TOML file of a bench, with [radios] and the waveform in [air]. Options replace its values."
    ),
]
Server = Annotated[
    str | None, typer.Option(help="Uri of the server's radio, such as ip:192.168.2.1 or usb:1.2.5.", show_default=False)
]
Clients = Annotated[
    list[str] | None, typer.Option("--client", help="Uri of a client's radio. Repeat the option for each client.")
]
Frequency = Annotated[
    float | None,
    typer.Option(help="Carrier frequency in Hz, one that you may transmit on. Nothing is sent without it."),
]
Rate = Annotated[float | None, typer.Option(help="Sample rate of all radios, samples per second. Default: 2.5e6.")]
RxGain = Annotated[float | None, typer.Option(help="Gain of all receivers, dB. Default: 40.")]
TxGain = Annotated[float | None, typer.Option(help="Gain of all transmitters, dB, from -89.75 to 0. Default: -30.")]
Clock = Annotated[
    str | None,
    typer.Option(help="The radios' clock: wall, or lock-step for virtual radios that use it. Default: wall."),
]
Tolerance = Annotated[
    float | None,
    typer.Option(help="Largest offset at which a client counts as aligned, samples. Default: 0.5."),
]
Save = Annotated[Path | None, typer.Option(help="Save the calibration to this file (TOML), by serial number.")]
Start = Annotated[
    Path | None, typer.Option(help="Start the search from this saved file. Every value is measured again.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to ``app``."""
    app.command()(measure)
    app.command()(align)
    app.command()(track)


def measure(
    config: Config = None,
    server: Server = None,
    client: Clients = None,
    frequency: Frequency = None,
    rate: Rate = None,
    rx_gain: RxGain = None,
    tx_gain: TxGain = None,
    clock: Clock = None,
    rounds: Annotated[int, typer.Option(help="Give up after this many rounds.")] = 20,
    as_json: Json = False,
) -> None:
    """Measure sample offset, carrier frequency offset, drift and power of each client once.

    Offsets are those of a client without any correction. Exits with 0 if all clients were measured.

    Example: oac-calibrate measure --server ip:192.168.2.1 --client ip:192.168.3.1 --frequency 2.45e9
    """
    with clear_errors():
        from calibration.cli_bench import RadioSession
        from oac_blocks.dsp.checks import integer

        integer("--rounds", rounds, 1)
        session = RadioSession(config, server, client, frequency, rate, rx_gain, tx_gain, clock)
        with session.bench() as bench:
            table = session.table(corrected=False)
            for _ in range(rounds):
                table.take(bench.play())
                if table.known:
                    break
    _show(table, as_json, {"measured": table.known}, "" if table.known else "not all clients were measured")
    raise typer.Exit(0 if table.known else NOT_MET)


def align(
    config: Config = None,
    server: Server = None,
    client: Clients = None,
    frequency: Frequency = None,
    tolerance: Tolerance = None,
    rate: Rate = None,
    rx_gain: RxGain = None,
    tx_gain: TxGain = None,
    clock: Clock = None,
    rounds: Annotated[int, typer.Option(help="Give up after this many rounds.")] = 100,
    save: Save = None,
    start: Start = None,
    as_json: Json = False,
) -> None:
    """Close the loop until all clients are within the tolerance in three payload rounds in a row.

    Exits with 0 if this succeeded, 1 if not, 2 for bad input or a missing radio.

    Example: oac-calibrate align bench.toml --save calibration.toml
    Example: oac-calibrate align --server ip:192.168.2.1 --client ip:192.168.3.1 --client ip:192.168.4.1
    --frequency 2.45e9 --tolerance 0.5 --save calibration.toml
    """
    with clear_errors():
        from calibration.cli_bench import RadioSession
        from oac_blocks.bench.threads.plan import bearable_offset_samples
        from oac_blocks.bench.threads.radios import align as run
        from oac_blocks.dsp.checks import integer

        integer("--rounds", rounds, 1)
        session = RadioSession(config, server, client, frequency, rate, rx_gain, tx_gain, clock, tolerance, save, start)
        table = session.table()
        with session.bench() as bench, table.live():
            outcome = run(bench, session.tolerance, rounds, table.take)
        session.keep(outcome.last.views)
    result = {
        "rounds": outcome.rounds,
        "tolerance_samples": session.tolerance,
        "tolerance_met": outcome.met,
        "all_tracking": outcome.last.all_tracking,
        "offset_rms_samples": _finite(outcome.offset_rms_samples),
        "offset_max_samples": _finite(outcome.offset_max_samples),
        "gaps": bench.gaps + sum(node.gaps for node in bench.nodes),
    }
    if outcome.met:
        text = f"all within {outcome.offset_max_samples:.3f} samples after {outcome.rounds} rounds"
    else:
        text = f"not aligned in {outcome.rounds} rounds: {outcome.reason(session.uris)}"
        if outcome.only_scattered:
            bearable = bearable_offset_samples(session.settings.num)
            text += f". --tolerance is {session.tolerance:g}; votes tolerate {bearable:g} here"
    _show(table, as_json, result, text)
    raise typer.Exit(0 if outcome.met else NOT_MET)


def track(
    config: Config = None,
    server: Server = None,
    client: Clients = None,
    frequency: Frequency = None,
    tolerance: Tolerance = None,
    rate: Rate = None,
    rx_gain: RxGain = None,
    tx_gain: TxGain = None,
    clock: Clock = None,
    rounds: Annotated[int, typer.Option(help="Number of rounds. Ctrl-C ends it earlier.")] = 1000,
    log: Annotated[
        Path | None, typer.Option(help="Write every round to this new file, for the command report.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the log to this file at the end. Default: the log's name with .png.")
    ] = None,
    record: Record = None,
    record_mb: RecordMb = MOST_MB,
    save: Save = None,
    start: Start = None,
    as_json: Json = False,
) -> None:
    """Keep the clients aligned, log every round, and draw the log at the end.

    Exits with 0 if the measured offsets of payload rounds after the lock were within the tolerance (RMS) and all
    clients are tracking at the end; with 1 if not.

    Example: oac-calibrate track --server ip:192.168.2.1 --client ip:192.168.3.1 --frequency 2.45e9
    --rounds 500 --log bench.jsonl
    """
    with clear_errors():
        from calibration.cli_bench import RadioSession
        from oac_blocks.dsp.checks import integer

        integer("--rounds", rounds, 1)
        if plot is not None and log is None:
            raise ValueError("--plot draws the log, so it needs --log")
        picture = plot or (log.with_suffix(".png") if log else None)
        if picture is not None and picture.suffix.lower() not in (".png", ".svg", ".pdf"):
            raise ValueError(f"--plot must end in .png, .svg or .pdf, got {picture}")
        session = RadioSession(config, server, client, frequency, rate, rx_gain, tx_gain, clock, tolerance, save, start)
        table = session.table()
        with nullcontext() if record is None else session.recorder(record, record_mb) as recorder:
            result = _track(session, table, rounds, log, recorder)
        if recorder is not None:
            typer.echo(recorder.summary, err=True)
        if log is not None and picture is not None:
            from calibration.log import read_log
            from calibration.report import draw

            draw(read_log(log), picture)
            result["picture"] = str(picture)
    rms = result["offset_rms_samples"]
    result["tolerance_met"] = met = result["all_tracking"] and rms is not None and rms <= session.tolerance
    text = f"{result['rounds']} rounds, {result['gaps']} gaps; "
    text += "never locked" if rms is None else f"offsets {rms:.3f} samples RMS after the lock"
    text += f"; tolerance of {session.tolerance:g} {'met' if met else 'not met'}"
    if log is not None:
        text += f"\n{log}; {picture}"
    _show(table, as_json, result, text)
    raise typer.Exit(0 if met else NOT_MET)


def _track(
    session: RadioSession, table: BenchTable, rounds: int, log: Path | None, recorder: Recorder | None
) -> dict[str, Any]:
    import numpy as np

    from calibration.log import LogWriter

    held: list[float] = []
    locked, played, all_tracking = False, 0, False
    with log_file(log) as file, session.bench(recorder) as bench, table.live(), suppress(KeyboardInterrupt):
        about = {"command": "track", "uris": list(session.uris), "tolerance_samples": session.tolerance}
        writer = LogWriter(file, len(session.plan.clients), session.plan.sample_rate_hz, about) if file else None
        write: Callable[..., None] = writer.round if writer else lambda *_: None
        while played < rounds:
            outcome = bench.play()
            played += 1
            write(*outcome.log_line())
            table.take(outcome)
            all_tracking = outcome.all_tracking
            if locked and outcome.kind == "payload":
                offsets = outcome.offset_samples
                held += offsets[np.isfinite(offsets)].tolist()
            locked |= all_tracking and outcome.kind == "payload"  # the loop still learns in the first payload round
    if played:
        session.keep(bench.loop.clients)
    return {
        "clients": len(session.plan.clients),
        "rounds": played,
        "tolerance_samples": session.tolerance,
        "all_tracking": all_tracking,
        "offset_rms_samples": float(np.sqrt(np.mean(np.square(held)))) if held else None,
        "offset_max_samples": float(np.max(np.abs(held))) if held else None,
        "gaps": bench.gaps + sum(node.gaps for node in bench.nodes),
    }


def _show(table: BenchTable, as_json: bool, result: dict[str, Any], text: str) -> None:
    console = console_for(as_json)
    console.print(table.rendered())
    if text:
        console.print(text, soft_wrap=True, highlight=False, markup=False)
    if as_json:
        typer.echo(json.dumps({**result, "radios": table.plain()}))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

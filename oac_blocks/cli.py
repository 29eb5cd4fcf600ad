# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the command ``oac-blocks``: Companion with the blocks, the path of the blocks, and the loopback without a screen.

The module imports neither GNU Radio nor torch unless a flowgraph runs, so that the command answers at once in any
environment.
"""

import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from oac_blocks.companion.interpreter import RegistrationError
from oac_blocks.companion.places import BLOCKS, FLOWGRAPHS
from oac_blocks.companion.registration import Registration
from oac_blocks.companion.registration import register as add_to_configuration
from oac_blocks.companion.registration import unregister as take_from_configuration
from oac_blocks.record.options import MOST_MB, Record, RecordMb

app = typer.Typer(no_args_is_help=True, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oac-blocks {version('gr-oac')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run GNU Radio Companion with the blocks and flowgraphs of gr-oac, or the loopback without a screen.

    Example: oac-blocks companion fsk_mv_link
    """


@app.command()
def companion(
    flowgraphs: Annotated[
        list[str] | None, typer.Argument(help="Files to open, or names of flowgraphs that come with gr-oac.")
    ] = None,
) -> None:
    """Open GNU Radio Companion with the blocks of gr-oac.

    A flowgraph of gr-oac is saved in place. The program that Companion generates goes to ~/.cache/gr-oac/flowgraphs.

    Example: oac-blocks companion fsk_mv_link
    """
    from oac_blocks.companion.program import application

    try:
        raise typer.Exit(application([_flowgraph_file(name) for name in flowgraphs or []]).run([]))
    except (ImportError, RuntimeError, ValueError) as error:
        typer.echo(f"oac-blocks companion: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ValueError) else 1) from None


def _flowgraph_file(name: str) -> Path:
    """Return this file, or the flowgraph of gr-oac with this name; Companion would open an empty one instead."""
    for file in (Path(name), FLOWGRAPHS / f"{name}.grc"):
        if file.is_file():
            return file
    known = ", ".join(sorted(file.stem for file in FLOWGRAPHS.glob("*.grc")))
    raise ValueError(f"a flowgraph must be a file or one of {known}, got {name}")


@app.command()
def path() -> None:
    """Print the folder of the block descriptions, for GRC_BLOCKS_PATH."""
    typer.echo(BLOCKS)


@app.command()
def flows() -> None:
    """List the flowgraphs that come with gr-oac: name, then file."""
    files = sorted(FLOWGRAPHS.resolve().glob("*.grc"))
    if not files:
        typer.echo(f"no flowgraphs in {FLOWGRAPHS}", err=True)
        raise typer.Exit(1)
    width = max(len(file.stem) for file in files)
    for file in files:
        typer.echo(f"{file.stem:<{width}}  {file}")


@app.command()
def register(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Make a plain gnuradio-companion find the blocks and flowgraphs of gr-oac, for this user.

    The folder of the blocks is added to GNU Radio's config.conf, and the flowgraphs to File > Open Recent. If the
    Python that runs Companion has no oac_blocks, the user's site-packages get a link to this one. All else stays.
    The exit status is 1 if flowgraphs with our blocks would not run all the same; the output then says what is missing.

    Example: oac-blocks register
    """
    registration = _changed("register", add_to_configuration, as_json)
    if not as_json:
        typer.echo(f"blocks      {BLOCKS}, in {registration.config}")
        typer.echo(
            f"flowgraphs  {len(registration.flowgraphs)} in File > Open Recent; all are in {FLOWGRAPHS.resolve()}"
        )
        link = f", by the link {registration.link}" if registration.link else ""
        if not registration.problem:
            typer.echo(f"Python      {registration.python} runs Companion and imports the blocks{link}")
            for name, error in registration.unusable.items():
                typer.echo(f"            but does not run {name} ({error}): `oac-blocks companion {name}` does")
            typer.echo("Start gnuradio-companion anew. `oac-blocks unregister` takes all of it back.")
    if registration.problem:
        typer.echo(f"oac-blocks register: {registration.problem}", err=True)
        raise typer.Exit(1)


@app.command()
def unregister(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Take back what `oac-blocks register` added to the user's configuration, and nothing else.

    Example: oac-blocks unregister
    """
    registration = _changed("unregister", take_from_configuration, as_json)
    if not as_json:
        typer.echo(f"{registration.config} names no blocks of gr-oac")


def _changed(command: str, change: Callable[[], Registration], as_json: bool) -> Registration:
    try:
        registration = change()
    except RegistrationError as error:
        typer.echo(f"oac-blocks {command}: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(registration.to_dict()))
    return registration


@app.command()
def loopback(
    clients: Annotated[int, typer.Option(min=1, max=63, help="Number of client radios.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds, calibration rounds included.")] = 100,
    votes: Annotated[int, typer.Option(min=1, help="Number of votes in a round.")] = 21_880,
    repeats: Annotated[int, typer.Option(min=1, help="Pairs of subcarriers for each vote.")] = 1,
    snr: Annotated[float, typer.Option(help="SNR of a unit subcarrier, dB.")] = 20.0,
    ppm: Annotated[float, typer.Option(help="Clock errors are spread from -ppm to +ppm.")] = 20.0,
    fading: Annotated[str, typer.Option(help="none, rayleigh or rician; drawn again in each round.")] = "rayleigh",
    profile: Annotated[str, typer.Option(help="Multipath profile: flat, indoor, epa, eva or etu.")] = "epa",
    calibrate: Annotated[
        bool, typer.Option(help="Close the calibration loop, or leave the radios uncorrected.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same decisions.")] = 1,
    record: Record = None,
    record_mb: RecordMb = MOST_MB,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the whole system in one flowgraph with random votes, and compare its error rate with the closed form.

    Example: oac-blocks loopback --clients 5 --snr 10 --no-calibrate
    Example: oac-blocks loopback --rounds 20 --record rec
    """
    # Every block has its own thread. Additional BLAS threads for small matrices would only compete with them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from oac_blocks.bench.flows.loopback import LoopbackSettings
    from oac_blocks.bench.flows.loopback_report import run_with_progress, table
    from oac_blocks.record.recorder import Recorder

    try:
        settings = LoopbackSettings(
            clients=clients, rounds=rounds, votes=votes, repeats=repeats, snr_db=snr, clock_ppm=ppm, fading=fading,
            profile=profile, calibrate=calibrate, seed=seed,
        )  # fmt: skip
        with nullcontext() if record is None else Recorder(record, settings.facts(), record_mb, waits=True) as recorder:
            trial = run_with_progress(settings, recorder)
        if recorder is not None:
            typer.echo(recorder.summary, err=True)
    except (ValueError, RuntimeError) as error:
        typer.echo(f"oac-blocks loopback: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ValueError) else 1) from None
    if as_json:
        typer.echo(json.dumps(trial.to_dict()))
    else:
        typer.echo(table(trial))


@app.command()
def replay(
    files: Annotated[
        list[Path], typer.Argument(help="Recordings, by the name of either of their files, or folders of recordings.")
    ],
    soft: Annotated[
        Path | None, typer.Option(help="Write the soft votes of all payload rounds to this file (.npy).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the server's receiver on recorded rounds, and compare the soft votes with the recorded ones bit for bit.

    Exits with 0 if all are equal, 1 if some are different, 2 if a recording cannot be read.

    Example: oac-blocks replay rec
    Example: oac-blocks replay rec/000004-round-4.sigmf-meta --soft votes.npy
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the receiver had it: more threads would add up otherwise
    from oac_blocks.record.files import recordings
    from oac_blocks.record.report import replay_all, save, shown

    try:
        if soft is not None and soft.suffix != ".npy":
            raise ValueError(f"--soft must end in .npy, got {soft}")
        rounds = replay_all(recordings(files))
        if soft is not None:
            save(soft, rounds)
    except (ValueError, OSError) as error:
        typer.echo(f"oac-blocks replay: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(shown(rounds, as_json))
    raise typer.Exit(0 if all(one.is_equal for one in rounds) else 1)

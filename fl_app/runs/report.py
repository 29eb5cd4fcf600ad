# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report of a run: figures, and one HTML file that contains everything and opens offline."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from fl_app.config import Settings
from fl_app.core.number_texts import clock, figure_texts, percent
from fl_app.data.partition_plot import partition_figure
from fl_app.data.partition_table import PartitionTable
from fl_app.pictures import save_figure
from fl_app.runs import figures
from fl_app.runs.metrics import summary
from fl_app.runs.page import html_figure, html_page, html_table
from fl_app.runs.run_folder import RunError, RunFolder
from fl_app.runs.score_figures import clients_figure, confusion_figure
from fl_app.runs.scores import ModelScores, kept_scores
from fl_app.toml_text import value_text

FIGURES = ("curves", "aou", "participation", "confusion", "per_client", "partition")
MOST_BARS = 3000  # clients times classes up to which the page draws the partition; a picture of more is smaller


def write_report(folder: RunFolder, formats: Collection[str] = ("png",), missing: str = "") -> Path:
    """Draw a run's figures and write report.html from its folder, for an unfinished run too.

    Parameters
    ----------
    folder : RunFolder
        The run.
    formats : collection of str
        File formats of the figures; the page shows them in any case.
    missing : str
        Why there is no confusion matrix and no accuracy of the clients, for the page.
    """
    rows = folder.rows()
    if not rows:
        raise RunError(f"{folder.path} has no rounds yet: nothing to report")
    checkpoint, scores = folder.latest(), kept_scores(folder)
    drawn: dict[str, Figure] = {"curves": figures.curves_figure(rows), "aou": figures.aou_figure(rows)}
    if checkpoint is not None:
        drawn["participation"] = figures.participation_figure(checkpoint.arrays["times_sent"])
    if scores is not None:
        if scores.confusion is not None:
            drawn["confusion"] = confusion_figure(scores)
        drawn["per_client"] = clients_figure(scores)
    for name, figure in drawn.items():
        save_figure(figure, folder.path / name, formats)
    shown = {**drawn, **_partition(folder, [one for one in formats if one != "png"])}
    settings = folder.settings()
    result = folder.read_result() or {"policy": settings.selection.policy, "air": settings.air.name, **summary(rows)}
    captions = _captions(scores)
    pictures = "\n".join(html_figure(shown[name], name, captions[name]) for name in FIGURES if name in shown)
    folder.write(folder.report, _page(folder, result, settings, pictures, missing))
    return folder.report


def _captions(scores: ModelScores | None) -> dict[str, str]:
    captions = {
        "curves": "Figures of merit on the test set, loss, and how often the air decided against the majority.",
        "aou": "Age of update: rounds since the server last received an entry of the gradient.",
        "participation": "How often each entry of the gradient was sent.",
        "partition": "Which client has which training samples.",
    }
    if scores is None:
        return captions
    after = f"the model after {scores.rounds} rounds"
    tested = 0 if scores.confusion is None else int(scores.confusion.sum())
    used = sum(one.scored for one in scores.clients)
    mixed = any(one.on_its_classes is not None for one in scores.clients)
    further = ", and on the test set if its classes were as frequent there as at the client" if mixed else ""
    return {
        **captions,
        "confusion": f"Confusion matrix of {after}: {tested:,} test samples by class (rows) and answer (columns). "
        "A cell is the stronger, the larger its share of the row.",
        "per_client": f"What {after} does for each client: on {used:,} training samples of the clients, evenly spread "
        f"over each client's own{further}.",
    }


def _partition(folder: RunFolder, formats: Collection[str]) -> dict[str, Figure | bytes]:
    """Return what the page shows of the partition, and write its files besides the PNG, which the run began with.

    This is the PNG if there are too many bars, or if the run is of a version that kept no table; nothing if it has
    neither.
    """
    picture, few_bars = folder.path / "partition.png", False
    if folder.partition.is_file():
        table = PartitionTable.from_csv(folder.partition.read_text(encoding="utf-8"))
        few_bars = table.counts.size <= MOST_BARS
        if few_bars or formats:
            figure = partition_figure(table)
            save_figure(figure, picture.with_suffix(""), formats)
    if few_bars:
        return {"partition": figure}
    return {"partition": picture.read_bytes()} if picture.is_file() else {}


def result_lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a result for people: pairs of a name and a value with its unit."""
    lines = [("policy", result["policy"]), ("rounds", str(result["rounds"]))]
    if "d" in result:
        lines.append(("entries sent in a round", f"k = {result['k']:,} of d = {result['d']:,}"))
    tested = figure_texts(result["test_accuracy"], result.get("test_figures"))  # older results have accuracy alone
    if "accuracy" in tested:
        tested["accuracy"] += f" (best {percent(result['best_test_accuracy'])})"
    lines += [(f"test {name}", value) for name, value in tested.items()]
    if result.get("test_loss") is not None:
        lines.append(("test loss", f"{result['test_loss']:.4f}"))
    lines += [
        ("age of update", f"mean {result['mean_aou']:.2f}, oldest {result['max_aou']} rounds"),
        ("entries sent at least once", f"{percent(result['participation'])} (after round 0, which sends all)"),
    ]
    if result["vote_error_rate"] is not None:
        compared = f"{result['votes_compared']:,} majorities"
        lines.append(("vote errors", f"{percent(result['vote_error_rate'])} of {compared}"))
    if result.get("tie_share") is not None:  # older results lack it
        lines.append(("ties", f"{percent(result['tie_share'])} of all entries: no majority, so chance decided"))
    hertz, joules = result.get("air_hertz"), result.get("air_joules")  # older results lack them
    band = f" on {hertz / 1e6:.3g} MHz" if hertz else ""
    lines.append(("on the air", f"{result['symbols']:,} OFDM symbols, {result['air_seconds']:.3f} s{band}"))
    if joules is not None:
        lines.append(("transmitted by a client", f"{1000 * joules:.3g} mJ"))
    if result["snr_db"] is not None:
        lines.append(("SNR at the server", f"{result['snr_db']:.1f} dB"))
    if result["pmepr_db"] is not None:
        lines.append(("PMEPR (99 %)", f"{result['pmepr_db']:.1f} dB"))
    if result["dropped_clients"]:
        lines.append(("dropped clients", f"{result['dropped_clients']} times: gradients not finite"))
    if result.get("absent_clients"):
        lines.append(("absent clients", f"{result['absent_clients']} times: not there, or too late"))
    down = result.get("downlink_bytes")  # results from before the link existed lack it
    if down:
        whole = 4 * result["d"]
        lines.append(
            (
                "down to each client",
                f"{down / 1000:.1f} kB a round; w itself: {whole / 1000:.1f} kB, {whole / down:.1f} times more",
            )
        )
    lines.append(("computing time", f"{clock(result['seconds'])} (training {clock(result['train_seconds'])})"))
    return lines


def result_table(result: dict[str, Any]) -> Table:
    """Return the result as a table for a terminal."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for what, value in result_lines(result):
        table.add_row(what, value)
    return table


def _page(folder: RunFolder, result: dict[str, Any], settings: Settings, pictures: str, missing: str) -> str:
    name, rounds = folder.path.resolve().name, settings.run.rounds
    state = "" if result["rounds"] == rounds else f" <em>not finished: {result['rounds']} of {rounds} rounds</em>"
    sections = tomllib.loads(settings.toml())
    tables = "\n".join(
        html_table(f"[{section}]", [(key, value_text(value)) for key, value in values.items()])
        for section, values in sections.items()
    )
    body = f"""<h1>{escape(name)}{state}</h1>
<p>{escape(settings.headline())}</p>
{html_table("", result_lines(result))}
<h2>Figures</h2>
{pictures}
{f"<p>No confusion matrix and no accuracy of the clients: {escape(missing)}.</p>" if missing else ""}
<h2>Settings</h2>
<div class="settings">{tables}</div>
<h2>Once more</h2>
<p><code>fl_app train config.toml</code>, with the config.toml beside this file, repeats the run bit for bit;
metrics.jsonl has every round's figures.</p>"""
    return html_page(name, body, folder.read_sessions())

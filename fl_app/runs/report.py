# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report of a run: figures, and one HTML file that contains everything and opens offline."""

from __future__ import annotations

import base64
import tomllib
from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table

from fl_app.config import Settings
from fl_app.core.number_texts import clock, figure_texts, percent
from fl_app.runs import figures
from fl_app.runs.metrics import summary
from fl_app.runs.run_folder import RunError, RunFolder
from fl_app.toml_text import value_text

CAPTIONS = {
    "curves.png": "Figures of merit on the test set, loss, and how often the air decided against the majority.",
    "aou.png": "Age of update: rounds since the server last received an entry of the gradient.",
    "participation.png": "How often each entry of the gradient was sent.",
    "partition.png": "Which client has which training samples.",
}

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
tr + tr { border-top: 1px solid #ddd; } td.value { font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } img { width: 44rem; max-width: 100%; height: auto; } figcaption { color: #555; }
.settings { columns: 2 22rem; } .settings table { break-inside: avoid; margin-bottom: 1rem; }
caption { text-align: left; font-weight: 600; } code { background: #f2f2f2; padding: .1rem .3rem; }
"""


def write_report(folder: RunFolder) -> Path:
    """Draw a run's figures and write report.html from its folder, for an unfinished run too."""
    rows = folder.rows()
    if not rows:
        raise RunError(f"{folder.path} has no rounds yet: nothing to report")
    checkpoint = folder.latest()
    figures.draw_curves(rows, folder.path / "curves.png")
    figures.draw_aou(rows, folder.path / "aou.png")
    if checkpoint is not None:
        figures.draw_participation(checkpoint.arrays["times_sent"], folder.path / "participation.png")
    settings = folder.settings()
    result = folder.read_result() or {"policy": settings.selection.policy, "air": settings.air.name, **summary(rows)}
    folder.report.write_text(_page(folder, result, settings), encoding="utf-8")
    return folder.report


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


def _page(folder: RunFolder, result: dict[str, Any], settings: Settings) -> str:
    name, rounds = escape(folder.path.resolve().name), settings.run.rounds
    state = "" if result["rounds"] == rounds else f" <em>not finished: {result['rounds']} of {rounds} rounds</em>"
    pictures = "\n".join(
        f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{_encoded(folder.path / file)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for file, caption in CAPTIONS.items()
        if (folder.path / file).is_file()
    )
    sections = tomllib.loads(settings.toml())
    tables = "\n".join(
        _html_table(f"[{section}]", [(key, value_text(value)) for key, value in values.items()])
        for section, values in sections.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style></head>
<body>
<h1>{name}{state}</h1>
<p>{escape(settings.headline())}</p>
{_html_table("", result_lines(result))}
<h2>Figures</h2>
{pictures}
<h2>Settings</h2>
<div class="settings">{tables}</div>
<h2>Once more</h2>
<p><code>fl_app train config.toml</code>, with the config.toml beside this file, repeats the run bit for bit;
metrics.jsonl has every round's figures.</p>
</body>
</html>
"""


def _html_table(caption: str, lines: list[tuple[str, str]]) -> str:
    body = "".join(f'<tr><th>{escape(what)}</th><td class="value">{escape(value)}</td></tr>' for what, value in lines)
    return f"<table>{f'<caption>{escape(caption)}</caption>' if caption else ''}{body}</table>"


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()

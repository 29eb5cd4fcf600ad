# SPDX-License-Identifier: GPL-3.0-or-later
"""The table, the figure and the page of a sweep, from figures that are made up."""

import csv
import itertools
import re
from urllib.parse import unquote

import matplotlib.image
import numpy as np
import pytest

from fl_app.runs.sweeps.figure import axis_key, draw_sweep, label_of
from fl_app.runs.sweeps.files import page, write_files
from fl_app.runs.sweeps.outcome import FIGURES, over_seeds
from fl_app.runs.sweeps.table import csv_text, latex, latex_text, markdown, table_of


def make_outcome(vary, seeds=(1, 2, 3), missing=()):
    """An outcome with made-up figures; no run has the `missing` ones."""
    rng = np.random.default_rng(5)
    points = []
    for number, values in enumerate(itertools.product(*vary.values())):
        figures = {
            figure: over_seeds([None if figure in missing else float(rng.uniform(0, 1)) for _ in seeds])
            for figure in FIGURES
        }
        names = [f"a=b,{number}-seed{seed}" for seed in seeds]
        points.append({"values": dict(zip(vary, values, strict=True)), "runs": names, **figures})
    runs = [{"name": name} for point in points for name in point["runs"]]
    shared = {"sweep": "x", "figures": list(FIGURES), "shared": "letters & co", "failed": []}
    return {**shared, "vary": vary, "seeds": list(seeds), "points": points, "runs": runs}


SNR = {"selection.policy": ["fair-k", "top-k"], "air.snr_db": [0.0, 10.0, 20.0]}


def test_statistics_are_those_of_numpy():
    each = [0.25, None, 0.5, 0.875]
    known = [0.25, 0.5, 0.875]
    assert over_seeds(each) == {
        "mean": pytest.approx(np.mean(known)),
        "std": pytest.approx(np.std(known, ddof=1)),
        "each": each,
    }
    assert over_seeds([0.5]) == {"mean": 0.5, "std": None, "each": [0.5]}
    assert over_seeds([None]) == {"mean": None, "std": None, "each": [None]}


def test_table_has_mean_deviation_and_each_seed():
    outcome = make_outcome(SNR, missing=("vote_error_rate", "tie_share", "air_joules"))
    outcome["points"][1]["test_accuracy"] = over_seeds([0.5, None, 0.75])
    outcome["points"][1]["max_aou"] = over_seeds([5, 5, 6])
    for point in outcome["points"]:
        point["air_seconds"] = over_seeds([0.0375] * 3)
    headings, rows = table_of(outcome)
    assert headings == ["policy", "snr_db", "accuracy %", "each seed %", "loss", "mean AoU", "oldest", "air s"]
    assert len(rows) == 6
    # (0.75 - 0.5) / sqrt(2) is the sample standard deviation of two values; that of 5, 5, 6 is 1 / sqrt(3).
    assert rows[1][:4] == ["fair-k", "10", "62.5 ± 17.7", "50.0, -, 75.0"]
    assert rows[1][-2:] == ["5.3 ± 0.6", "0.037"]
    assert markdown(headings, rows).splitlines()[3].startswith("| fair-k | 10 | 62.5 ± 17.7 | 50.0, -, 75.0 |")
    assert table_of(outcome, with_seeds=False)[0] == [name for name in headings if name != "each seed %"]


def test_csv_holds_every_number_unrounded():
    outcome = make_outcome(SNR, seeds=(4, 9), missing=("vote_error_rate",))
    lines = list(csv.DictReader(csv_text(outcome).splitlines()))
    assert len(lines) == 6
    for line, point in zip(lines, outcome["points"], strict=True):
        assert line["selection.policy"] == point["values"]["selection.policy"]
        assert float(line["air.snr_db"]) == point["values"]["air.snr_db"]
        assert line["vote_error_rate_mean"] == line["vote_error_rate_seed4"] == ""
        for figure in set(FIGURES) - {"vote_error_rate"}:
            assert float(line[f"{figure}_mean"]) == point[figure]["mean"]
            assert float(line[f"{figure}_std"]) == point[figure]["std"]
            assert [float(line[f"{figure}_seed{seed}"]) for seed in (4, 9)] == point[figure]["each"]


def test_latex_is_escaped_and_its_columns_are_set():
    headings, rows = table_of(make_outcome(SNR))
    lines = latex(headings, rows).splitlines()
    assert lines[1] == r"\begin{tabular}{lrrrrrrrrrr}"  # the policy is a name
    assert lines[3].startswith(r"policy & snr\_db & accuracy \% & each seed \% &")
    assert all(line.count("&") == 10 and line.endswith(r" \\") for line in (lines[3], *lines[5:11]))
    assert r" $\pm$ " in lines[5]
    assert latex_text(r"a_b\50%~") == r"a\_b\textbackslash{}50\%\textasciitilde{}"


def test_first_numeric_key_is_the_x_axis():
    assert axis_key(SNR) == "air.snr_db"
    assert axis_key({"a.b": [True, False], "c.d": [1, None], "e.f": [3], "g.h": [1, 2]}) == "g.h"
    assert axis_key({"a.b": ["x", "y"], "c.d": [True, False]}) == "a.b"
    assert axis_key({}) is None


def test_labels_have_units():
    assert label_of("air.snr_db") == "SNR (dB)"
    assert label_of("air.timing_sigma_samples") == "timing sigma (samples)"
    assert label_of("air.carrier_hz") == "carrier (Hz)"
    assert label_of("model.width") == "width"


@pytest.mark.parametrize(
    "vary",
    [
        SNR,
        {"server.lr": [0.001, 0.01, 0.1]},
        {"selection.policy": ["fair-k", "top-k"], "air.mode": ["onebit", "analog"]},
        {"air.snr_db": [10.0, None]},
        {},
    ],
    ids=["lines", "logarithmic", "bars", "one is none", "seeds alone"],
)
def test_figure_shows_something(vary, tmp_path):
    outcome = make_outcome(vary, missing=("test_accuracy",) if "server.lr" in vary else ())
    draw_sweep(outcome, tmp_path / "sweep")
    assert matplotlib.image.imread(tmp_path / "sweep.png")[..., :3].std() > 0.02
    assert (tmp_path / "sweep.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "sweep.svg").read_text()


def test_page_links_every_run_and_needs_nothing_else(tmp_path):
    outcome = make_outcome(SNR)
    gone = outcome["runs"].pop(0)["name"]
    outcome["points"][0]["test_accuracy"] = over_seeds([None, 0.5, 0.5])
    outcome["failed"] = [{"run": gone, "reason": "1 < 2 is true"}]
    text = page(outcome, "my sweep")
    links = re.findall(r'href="([^"]+)"', text)
    assert [unquote(link) for link in links if link.endswith("report.html")] == [
        f"{one['name']}/report.html" for one in outcome["runs"]
    ]
    assert "17 runs finished, 1 failed" in text
    assert "1 &lt; 2 is true" in text
    assert "letters &amp; co" in text
    assert "http" not in text
    write_files(outcome, tmp_path, {})
    beside = {*re.findall(r'src="([^"]+)"', text), *(link for link in links if "/" not in link)}
    assert all((tmp_path / name).is_file() for name in beside)
    assert "sweep.svg" in beside

# SPDX-License-Identifier: GPL-3.0-or-later
"""The table, the figure and the page of a sweep, from figures that are made up."""

import csv
import itertools
import math
import re
from urllib.parse import unquote

import matplotlib.image
import numpy as np
import pytest

from fl_app.pictures import FORMATS, save_figure
from fl_app.runs.sweeps.figure import axis_key, label_of, sweep_figure
from fl_app.runs.sweeps.outcome import FIGURES, over_seeds
from fl_app.runs.sweeps.page import RunsInfo, page
from fl_app.runs.sweeps.table import csv_text, latex, latex_cell, latex_of, latex_text, markdown, table_of
from tests.support.html import assert_stands_alone


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
            each = [float(line[f"{figure}_seed{seed}"]) for seed in (4, 9)]
            assert float(line[f"{figure}_sem"]) == pytest.approx(np.std(each, ddof=1) / math.sqrt(2))
            assert [float(line[f"{figure}_seed{seed}"]) for seed in (4, 9)] == point[figure]["each"]


def cells_of(line):
    """The cells of a line of a LaTeX table; an escaped & does not divide."""
    assert line.endswith(r" \\")
    return re.split(r"(?<!\\)&", line.removesuffix(r" \\"))


def test_latex_has_a_mean_and_a_standard_error_for_booktabs():
    outcome = make_outcome(SNR, seeds=(1, 2, 3), missing=("vote_error_rate", "tie_share", "air_joules"))
    outcome["points"][0]["test_accuracy"] = over_seeds([0.5, None, 0.75])
    outcome["points"][1]["test_accuracy"] = over_seeds([0.5, None, None])
    outcome["points"][2]["test_accuracy"] = over_seeds([None] * 3)
    outcome["points"][0]["values"]["air.snr_db"] = -5.0
    note, begin, top, head, middle, *rows, bottom, end = latex_of(outcome).splitlines()
    assert note == r"% mean and standard error over the seeds 1, 2, 3; needs \usepackage{booktabs}"
    assert begin == r"\begin{tabular}{lrrrrrr}"  # the policy is a name
    assert (top, middle, bottom, end) == (r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}")
    assert head == r"policy & snr\_db & accuracy \% & loss & mean AoU & oldest & air s \\"
    assert [len(cells_of(row)) for row in rows] == [7] * 6
    # The standard deviation of two values is their difference / sqrt(2), the error of their mean half the difference.
    assert rows[0].startswith(r"fair-k & $-5$ & $62.5 \pm 12.5$ & $")
    assert rows[1].startswith(r"fair-k & $10$ & $50.0$ & $")
    assert rows[2].startswith(r"fair-k & $20$ & -- & $")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("top-k", "top-k"),
        ("a_b", r"a\_b"),
        (r"C:\new", r"C:\textbackslash{}new"),
        ("50% & more", r"50\% \& more"),
        ("$x^2$", r"\$x\textasciicircum{}2\$"),
        ("#1 {x} ~", r"\#1 \{x\} \textasciitilde{}"),
        ("[1, 2]", "{[}1, 2{]}"),  # behind the \\\\ of the line before, [ would begin an argument
        ("*", "{*}"),
        ("a < b > c | d", r"a \textless{} b \textgreater{} c \textbar{} d"),
        ("x ± y", r"x $\pm$ y"),
        ("two\nlines", "two lines"),
        ("naïve μ", "naïve μ"),
    ],
)
def test_what_means_something_to_latex_is_escaped(text, escaped):
    assert latex_text(text) == latex_cell(text) == escaped


@pytest.mark.parametrize(
    ("cell", "set_as"),
    [
        ("-5", "$-5$"),
        ("0.037", "$0.037$"),
        ("1e-05", r"$1 \cdot 10^{-5}$"),
        ("2.4e+09", r"$2.4 \cdot 10^{9}$"),
        ("62.5 ± 17.7", r"$62.5 \pm 17.7$"),
        ("62.5 ± -", "$62.5$"),
        ("-", "--"),
        ("1.2.3", "1.2.3"),
        ("3 clients", "3 clients"),
    ],
)
def test_numbers_are_set_as_numbers(cell, set_as):
    assert latex_cell(cell) == set_as


def test_latex_sets_names_to_the_left_and_escapes_the_headings():
    lines = latex(["a&b", "x"], [["1", "[2]"], ["-", "3"]], "note").splitlines()
    assert lines[1] == r"\begin{tabular}{rl}"
    assert lines[3] == r"a\&b & x \\"
    assert lines[5:7] == [r"$1$ & {[}2{]} \\", r"-- & $3$ \\"]


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
    save_figure(sweep_figure(outcome), tmp_path / "sweep", FORMATS)
    assert matplotlib.image.imread(tmp_path / "sweep.png")[..., :3].std() > 0.02
    assert (tmp_path / "sweep.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "sweep.svg").read_text()


def test_page_shows_figures_and_table_and_links_every_run():
    outcome = make_outcome(SNR)
    gone = outcome["runs"].pop(0)["name"]
    outcome["points"][0]["test_accuracy"] = over_seeds([None, 0.5, 0.5])
    outcome["failed"] = [{"run": gone, "reason": "1 < 2 is true"}]
    figures = {"sweep": (sweep_figure(outcome), "A & B"), "again": (sweep_figure(outcome), "C")}
    info = RunsInfo({"air": {"name": "<air>"}}, {outcome["runs"][0]["name"]: {"air.snr_db": "-5"}})
    shown = assert_stands_alone(page("my <sweep>", outcome, info, figures, ["sweep.tex", "sweep.csv"]))
    links = [unquote(link) for link in shown.links]
    runs = [f"{one['name']}/report.html" for one in outcome["runs"]]
    assert links == [*runs, "sweep.tex", "sweep.csv", *runs]  # in the table, and once more in the list of runs
    assert shown.counts["svg"] == 2
    for text in ("my <sweep>", "17 runs finished, 1 failed", "1 < 2 is true", "letters & co", "A & B", "<air>"):
        assert text in shown.words

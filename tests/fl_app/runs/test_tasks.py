# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs of tasks that are no image classification: the same bits everywhere, reports with their own figures."""

import io
import math
import re
from dataclasses import asdict

import matplotlib.image
import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fl_app.cli.progress import RunProgress
from fl_app.cli.screen import Screen
from fl_app.config import load_settings
from fl_app.core.task import Regression
from fl_app.data.tables import best_r2
from fl_app.data.texts import carried_text, counted_loss
from fl_app.runs.report import result_lines, write_report
from tests.support.html import assert_stands_alone
from tests.support.runs import assert_same_run

TEXT = {"name": "text", "limit": 60, "test_limit": 20, "args": {"context": 16}}
TABLE = {"name": "table", "limit": 100, "test_limit": 50}
KINDS = {
    "gru": {"data": TEXT, "model": {"name": "gru", "args": {"width": 8}}},
    "char-transformer": {"data": TEXT, "model": {"name": "char-transformer", "args": {"width": 8}}},
    "mlp": {"data": TABLE, "model": {"name": "mlp", "args": {"hidden": 16}}},
}


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_workers_gives_the_same_run(run, tiny, kind):
    settings = tiny(**KINDS[kind], air={"name": "waveform"})
    alone = run(settings, "alone")
    assert len(alone.rows()) == 4
    assert_same_run(run(settings.with_values(run={"workers": 2}), "two"), alone)


@pytest.mark.parametrize("kind", ["gru", "mlp"])
def test_a_longer_run_has_the_figures_of_one_that_never_stopped(run, tiny, kind):
    """The shorter run tested the model after its last round, round 3, where the longer one does not."""
    settings = tiny(**KINDS[kind], run={"rounds": 3})
    longer = settings.with_values(run={"rounds": 6})
    run(settings, "grown")
    assert_same_run(run(longer, "grown"), run(longer, "whole"))


def test_the_text_has_its_own_figures(run, tiny):
    folder = run(tiny(**KINDS["gru"]))
    tested = [row for row in folder.rows() if row.is_tested]
    assert [row.round for row in tested] == [0, 1, 3]
    for row in tested:
        assert list(row.test_figures) == ["bits_per_character", "perplexity"]
        assert row.test_figures["perplexity"] == pytest.approx(math.exp(row.test_loss))
        assert row.test_figures["bits_per_character"] == pytest.approx(row.test_loss / math.log(2))
        assert 0 <= row.test_accuracy <= 1
    names = [name for name, _ in result_lines(folder.read_result())]
    assert names[3:7] == ["test accuracy", "test bits per character", "test perplexity", "test loss"]


def test_a_regression_is_reported_without_accuracy(run, tiny):
    folder = run(tiny(**KINDS["mlp"]))
    result = folder.read_result()
    assert (result["test_accuracy"], result["best_test_accuracy"]) == (None, None)
    lines = dict(result_lines(result))
    assert lines["test r2"] == f"{result['test_figures']['r2']:.3f}"
    assert lines["test rmse"] == f"{math.sqrt(result['test_loss']):.3f}"
    page = write_report(folder).read_text(encoding="utf-8")
    shown = assert_stands_alone(page)
    assert "test r2" in shown.words
    assert "accuracy" not in page
    assert shown.counts["svg"] == 5  # no confusion matrix
    assert matplotlib.image.imread(folder.path / "curves.png")[..., :3].std() > 0.02
    events = EventAccumulator(str(folder.events))
    events.Reload()
    assert [event.step for event in events.Scalars("test_r2")] == [0, 1, 3]
    assert "test_accuracy" not in events.Tags()["scalars"]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("mlp", r"r2 +-?\d\.\d{3}  rmse +\d\.\d{3}  loss"),
        ("gru", r"accuracy +\d+\.\d %  bits per character +\d\.\d{3}"),
    ],
)
def test_progress_and_screen_show_the_tasks_figures(run, tiny, kind, shown):
    settings = tiny(**KINDS[kind])
    rows = run(settings).rows()
    text = io.StringIO()
    with RunProgress(Console(file=text, width=200), 4, 0, "fair-k") as progress:
        for row in rows:
            progress.show(row)
    lines = text.getvalue().splitlines()
    screen = Screen(settings, "run")
    for row in rows:
        screen.take({"event": "round", **asdict(row)})
    for told in (lines, screen.new_lines()[1:]):
        assert len(told) == 3, "one line for each look at the test set"
        assert all(re.search(shown, line) for line in told)
    bar = io.StringIO()
    with RunProgress(Console(file=bar, width=150, force_terminal=True), 4, 0, "fair-k") as progress:
        for row in rows:
            progress.show(row)
    main = {"mlp": f"{rows[-1].test_figures.get('r2', 0):.3f}", "gru": f"{100 * (rows[-1].test_accuracy or 0):.1f} %"}
    assert main[kind] in bar.getvalue()


def test_a_figure_that_is_not_finite_is_null(tiny, run, monkeypatch):
    monkeypatch.setattr(Regression, "figures", lambda *_: {"r2": math.inf, "rmse": 1.0})
    folder = run(tiny(**KINDS["mlp"]))
    assert folder.rows()[0].test_figures == {"r2": None, "rmse": 1.0}
    assert dict(result_lines(folder.read_result()))["test r2"] == "-"
    assert "NaN" not in folder.metrics.read_text()
    assert "Infinity" not in folder.metrics.read_text()
    write_report(folder)


def test_a_few_rounds_teach_the_frequencies_of_characters(run, tiny):
    """One-bit votes through the waveform; the loss of a model that knows nothing is ln 78 = 4.36."""
    settings = tiny(
        data={"name": "text", "limit": 0, "test_limit": 100, "args": {"context": 16}},
        model={"name": "gru", "args": {"width": 16}},
        clients={"n": 3, "H": 2, "batch_size": 50, "lr": 0.5},
        server={"lr": 0.01},
        run={"rounds": 30, "eval_every": 30, "checkpoint_every": 30},
        air={"name": "waveform"},
    )
    assert run(settings).read_result()["test_loss"] < counted_loss(carried_text(), 1) < math.log(78)


@pytest.mark.slow
def test_the_text_config_learns_more_than_pairs(run):
    """Through the waveform air, half of its 200 rounds."""
    settings = load_settings("text", ["run.rounds=100", "run.workers=0", "run.eval_every=100"])
    assert run(settings).read_result()["test_loss"] < counted_loss(carried_text(), 2)


@pytest.mark.slow
def test_the_table_config_comes_near_the_noise_floor(run):
    result = run(load_settings("table", ["run.workers=0"])).read_result()
    assert 0.85 < result["test_figures"]["r2"] < best_r2() + 0.01

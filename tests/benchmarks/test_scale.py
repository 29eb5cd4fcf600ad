# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmarks of scale run, and count what they say: slopes, peaks of memory, parts of a round."""

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.scale import batched, figures, growth, large_round
from benchmarks.scale.spans import Spans, forget_peak, peak_bytes
from fl_app.core.models import ModelSpec
from tests.support.paths import ROOT

MEGA = 1 << 20


def test_every_benchmark_can_be_started():
    """Each is imported, and an unknown one is named with all others."""
    run = subprocess.run([sys.executable, "-m", "benchmarks", "nothing"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1
    assert {"large_round,", "growth,", "profile,", "start,", "ray_engine,"} <= set(run.stderr.split())


def test_a_peak_is_the_kernels_and_of_the_step_alone():
    forget_peak()
    before = peak_bytes()
    spans = Spans()
    spans.measured("inner", lambda: np.ones(64 * MEGA, np.uint8).sum())()
    spans.measured("outer", lambda: spans.measured("inner", lambda: None)())()
    found = spans.take()
    assert found["inner"]["calls"] == 2
    assert found["inner"]["peak_bytes"] - before > 60 * MEGA
    assert found["inner"]["peak_bytes"] - found["outer"]["peak_bytes"] > 40 * MEGA, "it was over before"
    assert spans.take() == {}


def test_a_step_with_the_peak_inside_has_it_too():
    spans = Spans()

    def large_first():
        spans.measured("large", lambda: np.ones(64 * MEGA, np.uint8).sum())()
        spans.measured("small", lambda: None)()

    spans.measured("both", large_first)()
    found = spans.take()
    assert found["both"]["peak_bytes"] >= found["large"]["peak_bytes"] > found["small"]["peak_bytes"] + 40 * MEGA


def test_a_large_round_says_what_each_step_takes():
    measured = large_round.measure(60)
    steps = {"round", "train", "uplink", "update", "select"}
    assert measured["round 0"].keys() == steps | {"preparation"}
    assert measured["round 1"].keys() == steps
    assert measured["checkpoint"].keys() == {"checkpoint"}
    round_1 = measured["round 1"]
    parts = sum(round_1[name]["seconds"] for name in ("train", "uplink", "update"))
    assert round_1["select"]["seconds"] < round_1["update"]["seconds"]
    assert parts < round_1["round"]["seconds"]


def test_slopes_are_those_of_powers():
    points = tuple(growth.Point(size, 3e-6 * size**1.5, 7 * size) for size in (10, 1000, 20_000))
    curve = growth.Curve("work", "d", points)
    assert curve.slope("cpu_seconds") == pytest.approx(1.5)
    assert curve.slope("extra_bytes") == pytest.approx(1.0)


def test_growth_is_measured_kept_and_read_again(tmp_path):
    found = growth.curves((2000, 4000), (0.1, 0.2), (2, 3), (200, 400), 2000)
    assert [curve.against for curve in found] == ["d", "k", "N", "k"]
    assert all(point.cpu_seconds > 0 and point.extra_bytes > 0 for curve in found for point in curve.points)
    growth.save(found, tmp_path / "growth.json")
    assert growth.load(tmp_path / "growth.json") == found


def test_batched_clients_compute_what_the_others_do():
    """A network without convolutions: its sums differ by rounding alone."""
    found = batched.measure(ModelSpec("mlp", {"hidden": 8}, batched.FACTS), batch=4, clients=3, turns=1)
    assert found["difference"] < 1e-6


def test_the_estimate_on_the_page_is_that_of_the_measured_parts(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "PICTURE", tmp_path / "growth.png")
    figures.main([])
    page = (ROOT / "docs" / "results" / "speed.md").read_text(encoding="utf-8")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    for line in lines:
        assert line in page
    assert (tmp_path / "growth.png").stat().st_size > 0

# SPDX-License-Identifier: GPL-3.0-or-later
"""The paper's figures at the scale of a smoke test, and their verdicts on figures of merit that are known."""

import csv
import json

import matplotlib.image
import pytest

from fl_app.paper.experiments import EXPERIMENTS, judge_ages, judge_policies, judge_ratios, judge_steps
from fl_app.paper.reproduce import NAMES, judge_constants, runs_of
from fl_app.paper.scales import Scale, table_settings
from tests.support.cli import fl_app

pytestmark = pytest.mark.usefixtures("own_folder")


TRIED = [["fig3"], ["fig4", "fig5"], ["fig6"], ["fig7"], ["fig9"], ["table1"]]  # figures that share runs together


@pytest.mark.parametrize("names", TRIED, ids="-".join)
def test_smoke(names, tmp_path):
    folder, written = tmp_path / "runs" / "paper-smoke", {}
    for name in names:
        command = ["reproduce", name, "--jobs", 0, "--json"]
        first = fl_app(*command).stdout
        check_files(name, json.loads(first), folder)
        # Neither another figure of the same runs nor a second call repeats a run.
        written = written or {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/*/result.json")}
        assert bool(written) == (name in EXPERIMENTS)
        assert fl_app(*command).stdout == first
        assert {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/*/result.json")} == written


def check_files(name, result, folder):
    assert result.keys() >= {"name", "scale", "claim", "agrees", "sentence", "folder"}
    assert result["agrees"] is (True if name == "fig3" else None)
    rows = list(csv.reader((folder / f"{name}.csv").open()))
    assert len(rows) > 2
    assert {len(row) for row in rows} == {len(rows[0])}
    assert result["sentence"] in (folder / f"{name}.md").read_text()
    if name != "table1":
        image = matplotlib.image.imread(folder / f"{name}.png")
        assert image[..., :3].std() > 0.02, "the figure is blank"
        assert (folder / f"{name}.pdf").stat().st_size > 1000


def test_every_figure_has_its_smoke_test():
    assert sorted(name for names in TRIED for name in names) == sorted(NAMES)


def test_other_figures_are_refused():
    assert "there are fig3" in fl_app("reproduce", "fig8", code=2).stderr


@pytest.mark.parametrize("scale", list(Scale))
def test_all_settings_of_all_scales_are_sound(scale, tmp_path):
    for figure in EXPERIMENTS.values():
        runs = runs_of(figure, scale, tmp_path)
        assert len({run.folder.path for run in runs}) == len(runs)
        if scale is not Scale.SMOKE:
            assert len({run.seed for run in runs}) >= 3
    for _title, alpha, trial in table_settings(scale):
        assert trial.settings().data.alpha == alpha


def point(values, each, **more):
    return {"values": values, "test_accuracy": {"each": each}, **{key: {"each": one} for key, one in more.items()}}


def by_policy(**values):
    names = {"fair": "fair-k", "top": "top-k", "age": "age-top-k", "rand": "top-rand"}
    return [point({"selection.policy": names[key]}, [one - 0.01, one + 0.01]) for key, one in values.items()]


def test_verdicts_on_policies():
    assert judge_policies({"a": by_policy(fair=0.8, top=0.5, age=0.5, rand=0.7)}).agrees
    assert not judge_policies({"a": by_policy(fair=0.705, top=0.5, age=0.5, rand=0.7)}).agrees  # within the errors
    both = {"a": by_policy(fair=0.8, top=0.5, age=0.5, rand=0.7), "b": by_policy(fair=0.4, top=0.5, age=0.3, rand=0.3)}
    verdict = judge_policies(both)
    assert not verdict.agrees
    assert "a: fair-k 80.0 +- 1.0 %" in verdict.sentence
    assert "-10.0 +- 1.4 to top-k" in verdict.sentence


def test_verdicts_on_ages_ratios_steps_and_constants():
    def ages(fair, rand):
        found = {"fair-k": fair, "top-k": 90.0, "age-top-k": 80.0, "top-rand": rand}
        return {"a": [point({"selection.policy": name}, [0.5], mean_aou=[age]) for name, age in found.items()]}

    assert judge_ages(ages(10.0, 20.0)).agrees
    assert not judge_ages(ages(19.0, 20.0)).agrees

    def ratios(*values):
        keys = (0.0, 0.1, 0.5, 0.9, 1.0)
        return {"a": [point({"selection.k_m_ratio": key}, [one, one]) for key, one in zip(keys, values, strict=True)]}

    assert judge_ratios(ratios(0.1, 0.80, 0.82, 0.79, 0.2)).agrees  # the ends do not count
    assert not judge_ratios(ratios(0.1, 0.80, 0.70, 0.60, 0.2)).agrees

    def steps(most):
        values = {("fair-k", 1): 0.5, ("fair-k", 20): most, ("top-k", 1): 0.4, ("top-k", 20): 0.5}
        return {
            "a": [point({"selection.policy": name, "clients.H": h}, [one, one]) for (name, h), one in values.items()]
        }

    assert judge_steps(steps(0.6)).agrees
    assert not judge_steps(steps(0.1)).agrees

    def constants(local):
        return [
            {"data": "x", "alpha": alpha, "local_squared": one, "global_squared": 10.0, "heterogeneity_squared": 1.0}
            for alpha, one in zip((0.1, 1.0), local, strict=True)
        ]

    assert judge_constants(constants((1000.0, 100.0))).agrees
    assert not judge_constants(constants((100.0, 1000.0))).agrees
    assert not judge_constants(constants((100.0, 20.0))).agrees

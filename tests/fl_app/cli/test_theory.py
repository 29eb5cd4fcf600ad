# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands `fl_app theory ...` as their users meet them."""

import json
import math

import matplotlib.image
import pytest

from tests.support.cli import fl_app

pytestmark = pytest.mark.usefixtures("own_folder")

PAPER = ("aou", "--d", 800, "--k", 80, "--k-m", 60, "--k0", 15)
SMALL = [
    *("--set", "data.limit=120", "--set", "data.test_limit=40", "--set", "clients.n=3", "--set", "clients.H=2"),
    *("--set", "run.workers=0", "--set", "air.name=fading", "--set", "model.name=cnn"),
]


def theory(*arguments):
    return json.loads(fl_app("theory", *arguments, "--json").stdout)


def test_ages_of_fig_3():
    found = theory(*PAPER, "--simulate")
    assert found.keys() == {"lemma1", "limit", "simulation"}
    for one in found.values():
        assert one.keys() == {"pmf", "mean", "max"}
        assert sum(one["pmf"]) == pytest.approx(1)
        assert one["mean"] == pytest.approx(math.fsum(age * p for age, p in enumerate(one["pmf"])))
    assert theory(*PAPER).keys() == {"lemma1", "limit"}
    shown = fl_app("theory", *PAPER, "--simulate").stdout
    assert "total variation between limit and the simulation: 0.00" in shown


def test_ages_of_a_model_that_is_too_large_for_lemma_1():
    found = theory("aou", "--d", 10**10, "--k", 10**9, "--k-m", 75 * 10**7, "--k0", 10**7)
    assert found["lemma1"] is None
    assert found["limit"]["mean"] > 0
    result = fl_app("theory", "aou", "--d", 800, "--k", 500, "--k-m", 60, "--k0", 15, code=2)
    assert "k must be at most d / 2 = 400" in result.stderr
    huge = ("theory", "aou", "--d", 10**9, "--k", 10**8, "--k-m", 10**7, "--k0", 10, "--simulate")
    assert "d must be at most 10,000,000 for a simulation" in fl_app(*huge, code=2).stderr


def test_noise_of_all_policies():
    found = theory("noise", "--s", "0,1", "--rho", "0.2")
    gains = {(row["policy"], row["k_m_ratio"]): row["closed_form"] for row in found["policies"]}
    assert gains["round-robin", None] == pytest.approx([5, 5])
    assert gains["fair-k", 0.75][0] < gains["fair-k", 0.25][0]
    assert gains["top-k", None] == []
    assert "fair-k" in fl_app("theory", "noise").stdout
    assert "rho must be" in fl_app("theory", "noise", "--rho", "2", code=2).stderr
    assert "--s must be numbers" in fl_app("theory", "noise", "--s", "a", code=2).stderr


def test_exchange_and_constants_of_a_training_run():
    found = theory("exchange", *SMALL, "--set", "run.rounds=8")
    assert found["p1"] == pytest.approx(found["k0"] / found["k_m"])
    assert 0 < found["predicted_aou"] < 10
    assert "p_1" in fl_app("theory", "exchange", *SMALL, "--set", "run.rounds=7").stdout
    assert "rounds must be at least 7" in fl_app("theory", "exchange", *SMALL, "--set=run.rounds=6", code=2).stderr


def test_advice_for_a_config():
    found = theory("advise", *SMALL, "--set", "air.mode=analog", "--set", "air.noise_std=0.3", "--trial", 5)
    # The noise is that of the config, divided among three clients.
    assert found["air_noise_rms"] == pytest.approx(0.1, rel=0.1)
    assert found["k_m_ratio"] == min(found["ratios"], key=lambda one: one["error"])["k_m_ratio"]
    assert found["H"] == min(found["steps"], key=lambda one: one["bound"])["H"]
    assert found["air_seconds_per_round"] > 0
    votes = theory("advise", *SMALL, "--trial", 5)
    assert votes["H"] is None
    assert votes["s"] >= 0
    assert "k_M/k = " in fl_app("theory", "advise", *SMALL, "--trial", 4).stdout


def test_terms_of_theorem_1_for_a_config():
    found = theory("bound", *SMALL, "--set", "air.mode=analog", "--rounds", 2, "--samples", 20)
    assert found["dominates"] in found["terms"]
    assert found["terms"]["staleness"] > 0
    assert found["constants"]["local_squared"] >= found["constants"]["global_squared"] > 0
    small = ("theory", "bound", *SMALL, "--set=air.mode=analog", "--rounds", 1, "--samples", 20)
    assert "eta_local" in fl_app(*small, "--figure", "bound.png").stdout
    assert matplotlib.image.imread("bound.png")[..., :3].std() > 0.02, "the figure is blank"
    assert "ends in .png" in fl_app(*small, "--figure", "bound.gif", code=2).stderr
    result = fl_app("theory", "bound", *SMALL, "--rounds", 1, "--samples", 20, code=2)
    assert "analog aggregation" in result.stderr

# SPDX-License-Identifier: GPL-3.0-or-later
"""Noise against gradient, per entry of a config."""

import json

import numpy as np
import pytest

from fl_app.config import ConfigError, load_settings
from fl_app.theory.regime import measure, powers_of
from tests.support.cli import fl_app

SMALL = (
    *("data.name=letters", "data.limit=60", "data.test_limit=20", "model.args={width = 4}"),
    *("clients.n=4", "clients.H=2", "clients.batch_size=5"),
)


def test_powers_of_the_mean_are_extrapolated_from_some_of_the_clients():
    # Client n has shared + own_n, so the mean over n clients has the power shared^2 + own^2 / n.
    rng = np.random.default_rng(1)
    shared, own = 0.3, 2.0
    sums = (shared * rng.normal(size=200_000) + own * rng.normal(size=(5, 200_000))).astype(np.float32)
    client, mean = powers_of(sums, n=50)
    assert client == pytest.approx(shared**2 + own**2, rel=0.01)
    assert mean == pytest.approx(shared**2 + own**2 / 50, rel=0.05)


def test_all_clients_need_no_extrapolation():
    sums = np.random.default_rng(2).normal(size=(6, 1000)).astype(np.float32)
    assert powers_of(sums, 6)[1] == pytest.approx(np.mean(sums.mean(axis=0) ** 2), rel=1e-5)


def test_the_ratio_follows_the_noise():
    found = [measure(load_settings("cifar10-small", [*SMALL, f"air.noise_std={std}"]), 1) for std in (0.1, 0.4)]
    assert found[0].noise_rms == pytest.approx(0.1 / 4)
    assert found[0].mean_rms == found[1].mean_rms  # the first round's gradient knows no noise
    assert found[1].noise_to_gradient == pytest.approx(4 * found[0].noise_to_gradient)


@pytest.mark.parametrize(("changes", "clients"), [((), 5), (("air.noise_std=none", "air.snr_db=10"), 2)])
def test_what_cannot_be_measured_is_refused(changes, clients):
    with pytest.raises(ConfigError, match=r"noise_std|--clients"):
        measure(load_settings("cifar10-small", [*SMALL, *changes]), 1, clients)


def test_the_command_prints_json():
    changes = [part for change in SMALL for part in ("--set", change)]
    result = fl_app("theory", "regime", "cifar10-small", *changes, "--rounds", "1", "--json")
    assert json.loads(result.stdout)["noise_to_gradient"] > 0

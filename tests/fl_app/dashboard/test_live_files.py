# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run writes for the live page: it is right, it is small, and the run's bits do not depend on it."""

import json
import logging

import numpy as np
import pytest
import scipy.signal

from fl_app.air.observed import spectrum_db
from fl_app.processes.identity import identity, is_alive
from fl_app.runs.live.client_history import read_history
from fl_app.runs.live.log_file import LogFile
from fl_app.runs.live.snapshot import MOST_BINS, MOST_LAYERS, age_histogram, layer_shares, value_histogram
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
from tests.support.runs import assert_same_run


def trained(settings, path, rounds):
    settings = settings.with_values(run={"rounds": rounds})
    folder = RunFolder.open(path) if path.exists() else RunFolder.create(settings, path)
    train(settings, folder, lambda _row: None, lambda: False)
    return folder


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("air", [{"name": "waveform"}, {"name": "fading", "scheme": "analog"}])
def test_a_run_has_the_same_bits_with_and_without_the_files(tiny, tmp_path, air):
    settings = tiny(air=air)
    bare = trained(settings.with_values(run={"loggers": []}), tmp_path / "bare", 3)
    trained(settings.with_values(run={"loggers": ["dashboard"]}), tmp_path / "told", 2)
    told = trained(settings.with_values(run={"loggers": ["dashboard"]}), tmp_path / "told", 3)
    assert_same_run(bare, told)
    assert not bare.snapshot.exists()
    shown, server = json.loads(told.snapshot.read_text()), told.latest().arrays
    d, sent = server["age"].size, server["age"] == 0
    assert shown["round"] == 2
    assert shown["aou"]["counts"] == np.bincount(server["age"]).tolist()
    assert sum(layer["entries"] for layer in shown["layers"]) == d
    assert sum(layer["entries"] * layer["sent"] for layer in shown["layers"]) == pytest.approx(sent.sum(), rel=1e-3)
    assert sum(shown["received"]["counts"]) == sent.sum()
    assert [one["state"] for one in shown["clients"]] == ["heard"] * 3
    assert all(np.isfinite(one["power_db"]) for one in shown["clients"])
    assert [line["round"] for line in read_history(told.clients)][-1] == 2
    assert (shown["energies"] is None, shown["spectrum"] is None) == (air["name"] == "fading",) * 2
    assert "goes on after round 2" in told.log.read_text()
    assert told.log.read_text().count("the run is finished") == 2


def test_histograms_and_layers_are_small_for_any_model():
    rng = np.random.default_rng(1)
    age = rng.integers(0, 500, 10_000).astype(np.int32)
    counted = age_histogram(age)
    assert len(counted["counts"]) <= MOST_BINS
    assert counted["counts"] == np.histogram(age, counted["edges"])[0].tolist()
    values = rng.standard_normal(5000).astype(np.float32)
    assert sum(value_histogram(values)["counts"]) == 5000
    assert sum(value_histogram(np.zeros(7, np.float32))["counts"]) == 7
    layers = [(f"layer {n}", 100) for n in range(100)]
    shares = layer_shares(layers, age, np.full(10_000, 2, np.int32))
    assert len(shares) == MOST_LAYERS
    assert sum(one["entries"] for one in shares) == 10_000
    assert shares[3]["mean_aou"] == pytest.approx(age[300:400].mean(), rel=1e-4)
    assert shares[-1]["name"] == "37 more layers"


def test_the_spectrum_is_that_of_scipy():
    rng = np.random.default_rng(2)
    samples = scipy.signal.lfilter([1, 0.8], [1], rng.standard_normal(4096) + 1j * rng.standard_normal(4096))
    samples = samples.astype(np.complex64)
    _, density = scipy.signal.welch(samples, 1.0, "hann", 256, detrend=False, return_onesided=False)
    np.testing.assert_allclose(spectrum_db(samples, 256), 10 * np.log10(np.fft.fftshift(density) / 256), atol=0.01)
    assert spectrum_db(samples[:100], 256).size == 0


def test_a_process_is_known_again(program):
    sleeper = program(["sleep", 600])
    assert is_alive(identity()) is True
    assert is_alive({**identity(), "started": 1}) is False
    assert is_alive({**identity(), "pid": sleeper.pid}) is False  # another process has its number
    assert is_alive({**identity(), "host": "elsewhere"}) is None
    assert is_alive({}) is None


def test_the_log_has_warnings_of_all_parts_while_it_is_open(tmp_path):
    log = LogFile(tmp_path / "run.log")
    log.say("begins")
    logging.getLogger("fl_app.somewhere").warning("careful")
    log.close()
    logging.getLogger("fl_app.somewhere").warning("later")
    text = (tmp_path / "run.log").read_text()
    assert "INFO begins" in text
    assert "WARNING careful" in text
    assert "later" not in text

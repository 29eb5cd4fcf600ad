# SPDX-License-Identifier: GPL-3.0-or-later
"""A data set that somebody adds: one module and a call of ``register_dataset``, and it trains."""

import pytest

from fl_app.config import ConfigError
from fl_app.data import register_dataset
from fl_app.data.registry import DATASETS
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
from tests.fl_app.data.stripes import load_stripes


@pytest.fixture
def _stripes():
    register_dataset("stripes", load_stripes)
    yield
    DATASETS.unregister("stripes")


@pytest.mark.usefixtures("_stripes")
def test_it_trains(tiny, tmp_path):
    own = {"data": {"name": "stripes", "limit": 0, "test_limit": 0}, "server": {"lr": 0.01}}
    settings = tiny(**own, run={"rounds": 10}, air={"name": "ideal"})
    result = train(settings, RunFolder.create(settings, tmp_path / "run"), lambda _row: None, lambda: False)
    assert result["test_accuracy"] > 0.8


@pytest.mark.usefixtures("_stripes")
def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="data set 'stripes' must have a name that is free"):
        register_dataset("stripes", load_stripes)


def test_an_unknown_one_is_named_with_the_nearest(tiny):
    with pytest.raises(ConfigError, match=r"\[data\] name = 'letter': did you mean 'letters'\?"):
        tiny(data={"name": "letter"})

# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/flower.md says what is there: its options are those of `OverTheAir`, and its example runs."""

import inspect
import re

import pytest

pytest.importorskip("flwr", reason="needs Flower: pip install 'gr-oac[flower]'")

from flwr.serverapp.strategy import FedAvg

from fl_app import LearningRate, Waveform
from fl_app.flower import OverTheAir
from fl_app.flower.layout import BUFFERS
from fl_app.flower.suitable import AVERAGING
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "flower.md").read_text()


def test_the_options_of_the_page_are_those_of_the_strategy():
    shown = dict(re.findall(r"^\| `(\w+)` \| ?(.*?) ?\|", PAGE, re.MULTILINE))
    assert shown.pop("beside_the_air") == "batch-norm statistics"
    options = dict(inspect.signature(OverTheAir).parameters)
    assert options.pop("beside_the_air").default == BUFFERS
    written = {name: "" if one.default is one.empty else f"`{one.default!r}`" for name, one in options.items()}
    assert {name: text.replace('"', "'") for name, text in shown.items()} == written


def test_the_strategies_that_the_page_names_are_those_that_work():
    assert f"average of the clients' models: {', '.join(AVERAGING)}" in PAGE


def test_the_example_of_the_options_runs():
    (example,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    names = {"FedAvg": FedAvg, "LearningRate": LearningRate, "OverTheAir": OverTheAir, "Waveform": Waveform}
    exec(example, names)
    settings = names["strategy"].settings
    assert (settings.air.name, settings.air.snr_db, settings.selection.rho) == ("waveform", 15.0, 0.1)


@pytest.mark.parametrize(("scheme", "lr"), [("fsk-mv", 0.01), ("analog", 1.0), ("energy", 1.0)])
def test_the_learning_rate_that_the_page_gives_is_the_default(scheme, lr):
    assert OverTheAir(FedAvg(), scheme=scheme).settings.server.lr == lr

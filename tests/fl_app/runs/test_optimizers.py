# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs with other optimizers and schedules than the paper's: they resume to the bit, or say why they cannot."""

import pytest

from fl_app.runs.run_folder import RunError
from fl_app.runs.train import train
from tests.support.runs import assert_same_run

pytestmark = pytest.mark.usefixtures("one_thread")


COSINE = {"lr_schedule": "cosine", "lr_warmup": 1}


@pytest.mark.parametrize(
    "server", [{"optimizer": "adam", **COSINE}, {"optimizer": "momentum", "nesterov": True, "lr_schedule": "step"}]
)
def test_stopped_run_goes_on_as_if_it_never_was(run, tiny, server):
    settings = tiny(server=server)
    whole = run(settings, "whole")
    assert any(name.startswith("step.") for name in whole.latest().arrays)
    run(settings, "stopped", stop_after=1)
    assert_same_run(run(settings, "stopped"), whole)
    plain = run(tiny(), "plain")
    assert plain.latest().arrays["w"].tobytes() != whole.latest().arrays["w"].tobytes()


def test_any_number_of_workers_gives_the_same_run_with_some_clients_and_epochs(run, tiny):
    settings = tiny(clients={"n": 5, "fraction": 0.5, "epochs": 1, "momentum": 0.5}, data={"limit": 100})
    alone = run(settings, "alone")
    for row in alone.rows():
        assert (row.dropped_clients, row.absent_clients) == (0, 0)  # a client that is not asked is not absent
    for workers in (1, 2):
        assert_same_run(run(settings.with_values(run={"workers": workers}), f"workers{workers}"), alone)


@pytest.mark.parametrize("section", ["clients", "server"])
def test_cosine_is_not_stretched_over_another_number_of_rounds(run, tiny, section):
    settings = tiny(**{section: COSINE})
    folder = run(settings, stop_after=1)
    with pytest.raises(RunError, match=rf"--rounds 9: \[{section}\] lr_schedule = 'cosine' spans 4 rounds: .* anew"):
        folder.with_rounds(settings, 9)
    assert folder.with_rounds(settings, 4) == settings
    assert folder.with_rounds(tiny(**{section: {"lr_schedule": "step"}}), 9).run.rounds == 9


def test_checkpoint_of_another_optimizer_is_refused(run, tiny):
    folder = run(tiny(), stop_after=1)
    with pytest.raises(RunError, match=r"checkpoint of .*run does not fit its config.toml: .*\['velocity'\], not \[\]"):
        train(tiny(server={"optimizer": "momentum"}), folder, lambda _row: None, lambda: False)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole runs, small: the same bits for any number of processes and after any stop; bad clients; bad disks."""

import dataclasses

import numpy as np
import pytest
import torch

from fl_app.air.simulation.fading import FadingAir
from fl_app.core.number_texts import percent
from fl_app.core.samples import ArraySamples
from fl_app.runs import prepare as preparation
from fl_app.runs import run as training
from fl_app.runs.report import result_lines
from fl_app.runs.run import TrainingError
from fl_app.runs.run_folder import RunError, RunFolder
from fl_app.runs.train import train
from tests.support.runs import assert_same_run


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("air", "mode"),
    [("ideal", "analog"), ("fading", "onebit"), ("fading", "analog"), ("waveform", "onebit"), ("digital", "energy")],
)
def test_any_number_of_workers_gives_the_same_run(run, tiny, air, mode):
    settings = tiny(air={"name": air, "mode": mode})
    alone = run(settings, "alone")
    assert len(alone.rows()) == 4
    for workers in (1, 2):
        assert_same_run(run(settings.with_values(run={"workers": workers}), f"workers{workers}"), alone)


def test_another_seed_gives_another_run(run, tiny):
    one, other = run(tiny(), "one"), run(tiny(run={"seed": 4}), "other")
    assert [row.loss for row in one.rows()] != [row.loss for row in other.rows()]


@pytest.mark.parametrize("mode", ["onebit", "analog"])
def test_error_feedback_gives_the_same_run_for_any_number_of_workers_and_after_any_stop(run, tiny, mode):
    settings = tiny(run={"rounds": 5}, clients={"error_feedback": True, "fraction": 0.6}, air={"mode": mode})
    whole = run(settings, "whole")
    assert whole.latest().arrays.keys() >= {"residual.0", "residual.1", "residual.2"}
    for stops in (1, 1, 2, None):
        stopped = run(settings.with_values(run={"workers": 2}), "stopped", stop_after=stops)
    assert_same_run(stopped, whole)
    without = run(tiny(run={"rounds": 5}, clients={"fraction": 0.6}, air={"mode": mode}), "without")
    assert without.rows()[-1].loss != whole.rows()[-1].loss


def test_adaptive_k_goes_on_as_if_never_stopped_and_rows_have_its_k_m(run, tiny):
    settings = tiny(run={"rounds": 6, "checkpoint_every": 1}, selection={"policy": "adaptive-k"})
    whole = run(settings, "whole")
    for stops in (2, 2, None):
        stopped = run(settings, "stopped", stop_after=stops)
    assert_same_run(stopped, whole)
    shares = [None if row.k_m is None else row.k_m / row.k for row in whole.rows()]
    assert shares[0] is None  # all entries are sent
    assert shares[1] == pytest.approx(0.75, abs=1e-4)
    assert len(set(shares)) > 2


@pytest.mark.parametrize("air", ["fading", "waveform"])
def test_stopped_run_goes_on_as_if_it_never_was(run, tiny, air):
    settings = tiny(run={"rounds": 5}, air={"name": air})
    whole = run(settings, "whole")
    for stops in (1, 1, 2, None):
        stopped = run(settings, "stopped", stop_after=stops)
    assert_same_run(stopped, whole)
    assert stopped.read_result().keys() == whole.read_result().keys()


def test_resnet_with_its_batch_norm_goes_on_as_if_never_stopped(run, tiny):
    settings = tiny(
        run={"rounds": 3},
        model={"name": "resnet18", "width": 2},
        data={"limit": 60, "test_limit": 40},
        clients={"n": 2},
    )
    whole = run(settings, "whole")
    assert any(name.startswith("buffer.") for name in whole.latest().arrays)
    run(settings, "stopped", stop_after=1)
    assert_same_run(run(settings, "stopped"), whole)


def test_damaged_checkpoint_costs_rounds_not_the_run(run, tiny, caplog):
    settings = tiny(run={"rounds": 5})
    whole = run(settings, "whole")
    folder = run(settings, "damaged", stop_after=3)
    (folder.checkpoints / "round-00003.safetensors").write_bytes(b"short")
    assert folder.latest().rounds_done == 2
    assert_same_run(run(settings, "damaged"), whole)
    assert "round-00003 is damaged" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[:-30], lambda text: text + '{"round": 2', lambda text: text[:0]],
    ids=["cut", "more", "empty"],
)
def test_damaged_metrics_are_written_anew(run, tiny, damage):
    settings = tiny()
    whole = run(settings, "whole")
    folder = run(settings, "stopped", stop_after=3)
    folder.metrics.write_text(damage(folder.metrics.read_text()))
    assert_same_run(run(settings, "stopped"), whole)


def test_finished_run_is_not_trained_again(run, tiny, monkeypatch):
    folder = run(tiny())
    monkeypatch.setattr(training.Training, "play_round", lambda *_: pytest.fail("trained again"))
    run(tiny())
    assert folder.latest().rounds_done == 4


def test_figures_of_the_rounds(run, tiny):
    rows = run(tiny(run={"rounds": 6})).rows()
    assert [row.round for row in rows] == list(range(6))
    d, k = rows[0].k, rows[1].k
    assert k == round(0.2 * d)
    assert all(row.k == k for row in rows[1:])
    # Round 0 refreshes all; after one round of k entries the other d - k are one round old.
    assert (rows[0].mean_aou, rows[0].max_aou, rows[0].participation) == (0, 0, 0)
    assert rows[1].mean_aou == pytest.approx(1 - k / d)
    assert rows[1].participation == pytest.approx(k / d)
    assert [row.test_accuracy is not None for row in rows] == [True, True, False, True, False, True]
    assert all(0 < row.votes_compared <= row.k for row in rows)
    assert all(row.loss > 0 and row.symbols > row.k // 96 and row.air_seconds > 0 for row in rows)


def test_ties_of_the_clients_heard_are_reported(run, tiny, monkeypatch):
    known = []
    original = FadingAir.uplink

    def without_client_2(self, payload, clients, t):
        heard = np.flatnonzero(clients != 2)
        known.append(payload[heard].sum(axis=0, dtype=int) == 0)
        return dataclasses.replace(original(self, payload, clients, t), heard=clients[heard])

    monkeypatch.setattr(FadingAir, "uplink", without_client_2)
    folder = run(tiny(run={"rounds": 2}))
    shares = [row.tie_share for row in folder.rows()]
    assert shares == pytest.approx([ties.mean() for ties in known])
    assert 0 < min(shares) < max(shares) < 1
    ties, entries = (sum(count) for count in zip(*((np.count_nonzero(t), t.size) for t in known), strict=True))
    assert folder.read_result()["tie_share"] == pytest.approx(ties / entries)
    assert ("ties", f"{percent(ties / entries)} of all entries: no majority, so chance decided") in result_lines(
        folder.read_result()
    )


def test_no_ties_are_reported_where_nothing_is_decided(run, tiny):
    folder = run(tiny(run={"rounds": 1}, air={"mode": "analog"}))
    assert folder.rows()[0].tie_share is None
    assert folder.read_result()["tie_share"] is None


def with_bad_client(monkeypatch, spoil):
    """Runs get clients whose images `spoil` (client number, images) has changed."""

    def prepare(settings, objects):
        prepared = preparation.prepare(settings, objects)

        def data_of(client):
            data = prepared.data_of(client)
            return ArraySamples(spoil(client, data.inputs), data.targets)

        return dataclasses.replace(prepared, data_of=data_of)

    monkeypatch.setattr(training, "prepare", prepare)


def test_client_with_nan_gradients_is_dropped_and_counted(run, tiny, monkeypatch):
    with_bad_client(monkeypatch, lambda n, images: images * np.float32(np.nan) if n == 1 else images)
    folder = run(tiny(air={"name": "waveform"}))
    assert [row.dropped_clients for row in folder.rows()] == [1] * 4
    assert all(row.loss > 0 for row in folder.rows())
    assert np.isfinite(folder.latest().arrays["w"]).all()
    assert folder.read_result()["dropped_clients"] == 4


def test_run_without_any_finite_gradient_keeps_its_model_and_stops_after_three_rounds(run, tiny, monkeypatch):
    with_bad_client(monkeypatch, lambda _n, images: images * np.float32(np.inf))
    with pytest.raises(TrainingError, match=r"3 rounds in a row, up to round 3, .*smaller learning"):
        run(tiny(run={"checkpoint_every": 1}))


def test_lost_round_keeps_the_model(run, tiny, monkeypatch):
    first = run(tiny(run={"rounds": 1}), "first").latest().arrays["w"]
    rounds = []
    original = FadingAir.uplink

    def lose_round_1(self, payload, clients, t):
        rounds.append(t)
        uplink = original(self, payload, clients, t)
        return dataclasses.replace(uplink, received=uplink.received * np.float32(np.nan)) if t == 1 else uplink

    monkeypatch.setattr(FadingAir, "uplink", lose_round_1)
    folder = run(tiny(run={"rounds": 2}), "lost")
    assert rounds == [0, 1]
    np.testing.assert_array_equal(folder.latest().arrays["w"], first)
    assert folder.rows()[1].max_aou == 1


def test_round_in_which_nobody_is_heard_keeps_the_model(run, tiny, monkeypatch):
    first = run(tiny(run={"rounds": 1}), "first").latest().arrays["w"]
    original = FadingAir.uplink

    def silence_round_1(self, payload, clients, t):
        uplink = original(self, payload, clients, t)
        return dataclasses.replace(uplink, heard=clients[:0]) if t == 1 else uplink

    monkeypatch.setattr(FadingAir, "uplink", silence_round_1)
    folder = run(tiny(run={"rounds": 2}), "silent")
    np.testing.assert_array_equal(folder.latest().arrays["w"], first)
    assert [row.absent_clients for row in folder.rows()] == [0, 3]
    assert folder.rows()[1].vote_error_rate is None


def test_run_does_not_go_on_with_other_data(run, tiny):
    folder = run(tiny(), stop_after=2)
    with pytest.raises(RunError, match="was trained on other data"):
        train(tiny(data={"limit": 280}), folder, lambda _row: None, lambda: False)


def test_full_disk_stops_the_run_and_keeps_the_checkpoint(run, tiny):
    settings = tiny(run={"checkpoint_every": 1})
    folder = run(settings, stop_after=2)
    before = folder.latest().arrays["w"]
    (folder.checkpoints / "round-00003.safetensors.part").symlink_to("/dev/full")  # answers as a full disk does
    with pytest.raises(RuntimeError, match="the disk is full; the checkpoint round-00002 is intact"):
        run(settings)
    np.testing.assert_array_equal(folder.latest().arrays["w"], before)
    assert_same_run(run(settings), run(settings, "whole"))


def test_folder_keeps_the_settings_that_it_was_planned_with(tiny, tmp_path):
    """Where a server listens, and which flowgraph it uses, is not the run's: a resumed one may have others."""
    folder = RunFolder.plan(tiny(), tmp_path / "run")
    assert not folder.path.exists()
    folder.begin(tiny(link={"bind": "ipc:///tmp/gone"}))
    assert folder.settings() == tiny()


def test_disk_that_fills_while_metrics_are_written(tiny, tmp_path):
    folder = RunFolder.create(tiny(), tmp_path / "run")
    folder.metrics.symlink_to("/dev/full")
    with pytest.raises(RunError, match=r"cannot write .*metrics\.jsonl: the disk is full; make room, then"):
        folder.append(_row())


def _row():
    fields = {field.name: 0 for field in dataclasses.fields(training.RoundFigures)}
    return training.RoundFigures(**fields)


def test_folder_of_another_run_is_not_overwritten(tiny, tmp_path):
    RunFolder.create(tiny(), tmp_path / "run")
    with pytest.raises(RunError, match=r"holds a run already: `fl_app resume .*run`"):
        RunFolder.create(tiny(), tmp_path / "run")
    with pytest.raises(RunError, match="is not the folder of a run"):
        RunFolder.open(tmp_path)

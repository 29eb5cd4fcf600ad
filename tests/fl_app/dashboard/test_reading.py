# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page knows of a run's folder: growing, torn, killed and resumed, not there yet, long."""

import os
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from fl_app.runs.dashboard.curves import Curves
from fl_app.runs.dashboard.listing import Listing
from fl_app.runs.dashboard.reader import RunReader, SeenByPage
from fl_app.runs.dashboard.tail import Tail, last_lines
from fl_app.runs.live.client_history import ClientHistory, read_history
from tests.support.live_runs import row_of


@pytest.mark.parametrize("rounds", [1, 7, 8, 9, 16, 17, 100, 1000])
def test_buckets_hold_the_means_that_numpy_computes(rounds):
    loss = np.random.default_rng(rounds).random(rounds)
    curves = Curves(most=8)
    for t in range(rounds):
        curves.add({"loss": float(loss[t]), "test_accuracy": float(t) if t % 3 == 0 else None, "air_seconds": 0.5})
    told = curves.since(None)
    chunks = [np.arange(first, min(first + told["stride"], rounds)) for first in range(0, rounds, told["stride"])]
    assert len(chunks) <= 8
    assert told["x"] == [int(chunk[-1]) + 1 for chunk in chunks]
    np.testing.assert_allclose(told["columns"]["loss"], [loss[chunk].mean() for chunk in chunks], rtol=1e-4)
    tested = [chunk[chunk % 3 == 0] for chunk in chunks]
    expected = [one.mean() if len(one) else np.nan for one in tested]
    np.testing.assert_allclose(np.array(told["columns"]["test_accuracy"], float), expected, rtol=1e-4)
    assert curves.air_seconds == pytest.approx(0.5 * rounds)


def test_changes_put_together_are_the_whole():
    """A page that takes every change has the same curves as one that opens late."""
    curves, x, loss, position = Curves(most=8), [], [], None
    for t in range(50):
        curves.add({"loss": float(t * t)})
        if t % 3 == 0:
            told, position = curves.since(position), curves.position
            x[told["first"] :], loss[told["first"] :] = told["x"], told["columns"]["loss"]
    told = curves.since(position)
    x[told["first"] :], loss[told["first"] :] = told["x"], told["columns"]["loss"]
    whole = curves.since(None)
    assert (x, loss) == (whole["x"], whole["columns"]["loss"])


def test_memory_does_not_grow_with_the_rounds():
    curves, row = Curves(), row_of(3).__dict__
    for _ in range(2000):
        curves.add(row)
    tracemalloc.start()
    for _ in range(6000):
        curves.add(row)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000  # merging copies the tables once
    assert len(curves.since(None)["x"]) <= 1000


def test_a_tail_returns_whole_lines_once_and_notices_another_file(tmp_path):
    path, other = tmp_path / "lines", tmp_path / "other"
    tail = Tail(path, most_bytes=16)
    assert tail.read() == ([], False, False)
    path.write_bytes(b"one\ntwo\nthr")
    assert tail.read() == ([b"one", b"two"], True, False)
    assert tail.read() == ([], False, False)
    with path.open("ab") as stream:
        stream.write(b"ee\nfour\nfive\nsix\nseven\n")
    assert tail.read() == ([b"three", b"four", b"five"], False, True)
    assert tail.read() == ([b"six", b"seven"], False, False)
    other.write_bytes(b"1\n")
    other.replace(path)
    assert tail.read() == ([b"1"], True, False)
    path.unlink()
    assert tail.read() == ([], True, False)


def test_last_lines_are_whole(tmp_path):
    path = tmp_path / "log"
    path.write_text("first\nsecond\nthird\ntor")
    assert last_lines(path, 1000) == ["first", "second", "third"]
    assert last_lines(path, 12) == ["third"]
    assert last_lines(tmp_path / "none", 10) == []


def test_a_run_is_followed_from_before_its_folder_to_its_end(write_run, tmp_path):
    reader, seen = RunReader(tmp_path / "runs" / "a"), SeenByPage()
    reader.refresh()
    assert reader.news(seen)["status"]["state"] == "waiting"
    run = write_run("a")
    run.play(3)
    reader.refresh()
    news = reader.news(seen)
    assert news["status"]["state"] == "running"
    assert news["curves"]["x"] == [1, 2, 3]
    assert news["settings"]["clients"]["n"] == "3"
    assert news["history"]["offset_samples"][2] == [0.02, 1.02]
    assert news["log"]["run"][-1].endswith("round 3")
    run.play(2)
    reader.refresh()
    news = reader.news(seen)
    assert (news["curves"]["first"], news["curves"]["x"]) == (3, [4, 5])
    assert (news["history"]["first"], news["history"]["rounds"]) == (3, [4, 5])
    assert "settings" not in news
    run.finish()
    reader.refresh()
    assert reader.news(seen)["status"]["state"] == "finished"
    reader.refresh()
    assert reader.news(seen) == {}


def test_a_killed_run_shows_its_whole_rounds_and_goes_on(write_run):
    run = write_run("a")
    run.play(6)
    run.kill()
    reader, seen = RunReader(run.folder.path), SeenByPage()
    reader.refresh()
    assert reader.news(seen)["curves"]["x"] == [1, 2, 3, 4, 5, 6]
    run.resume(4)
    run.play(1)
    reader.refresh()
    news = reader.news(seen)
    assert (news["curves"]["first"], news["curves"]["x"]) == (0, [1, 2, 3, 4, 5])
    assert news["history"] == {**news["history"], "first": 0, "rounds": [1, 2, 3, 4, 5]}


def test_a_run_whose_process_is_gone_is_stopped(write_run):
    run = write_run("a")
    run.play(1)
    shown = run.folder.snapshot.read_text()
    run.folder.snapshot.write_text(shown.replace(f'"pid": {os.getpid()}', '"pid": 4194304'))  # above Linux's largest
    reader, seen = RunReader(run.folder.path), SeenByPage()
    reader.refresh()
    assert reader.news(seen)["status"]["state"] == "stopped"


def test_what_follows_a_torn_line_is_not_shown(write_run):
    run = write_run("a")
    run.play(2)
    with run.folder.metrics.open("a") as stream:
        stream.write('{"round": 2, "k"\n' + row_of(3).line())
    reader, seen = RunReader(run.folder.path), SeenByPage()
    reader.refresh()
    assert reader.news(seen)["curves"]["x"] == [1, 2] == [row.round + 1 for row in run.folder.rows()]


def test_runs_are_listed_below_a_folder_and_nothing_else_can_be_named(write_run, tmp_path):
    write_run("a").play(3)
    write_run("sweep/b").finish()
    (tmp_path / "runs" / "notes").mkdir()
    listing = Listing(tmp_path / "runs")
    runs = {one["id"]: one for one in listing.read()}
    assert runs.keys() == {"a", "sweep/b"}
    assert (runs["a"]["state"], runs["a"]["rounds"], runs["a"]["total"]) == ("running", 3, 50)
    assert runs["a"]["accuracy"] == row_of(2).test_accuracy
    assert runs["sweep/b"]["state"] == "finished"
    assert listing.path_of("sweep/b") == tmp_path / "runs" / "sweep" / "b"
    for name in ("", ".", "..", "../runs/a", "/etc", "notes", "a/"):
        assert listing.path_of(name) is None
    assert [one["id"] for one in Listing(tmp_path / "runs" / "a").read()] == ["a"]


def test_the_history_of_clients_stays_small_and_goes_on(tmp_path):
    def about(t):
        return [{"offset_samples": float(t), "power_db": None, "cfo_hz": 1.0, "state": "heard"}]

    path = tmp_path / "clients.jsonl"
    history = ClientHistory(path, 0, most_lines=10)
    for t in range(100):
        history.add(t, about(t))
    rounds = [line["round"] for line in read_history(path)]
    assert 5 <= len(rounds) <= 10
    assert len({later - earlier for earlier, later in pairwise(rounds)}) == 1
    history = ClientHistory(path, rounds[3], most_lines=10)
    history.add(rounds[3], about(rounds[3]))
    assert [line["round"] for line in read_history(path)] == rounds[:4]

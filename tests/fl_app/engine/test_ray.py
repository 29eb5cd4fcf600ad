# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients on a real Ray cluster: the bits of this process, also if a worker, a node or the main process is killed."""

import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fl_app.core.client import Broadcast
from fl_app.core.models import ModelSpec, get_buffers, get_parameters
from fl_app.core.samples import DatasetSamples
from fl_app.core.selection import FairK
from fl_app.engine.pool import InProcess, make_workers
from fl_app.engine.ray_cluster import RayCluster
from fl_app.engine.ray_engine import RayWorkers
from fl_app.engine.settings import EngineSection
from fl_app.engine.worker_process import WorkerError
from fl_app.runs.run_folder import RunFolder
from fl_app.runs.train import train
from tests.fl_app.engine.samples import Deadly, StuckOn, TorchData, make_samples
from tests.fl_app.engine.test_workers import LOCAL
from tests.support.paths import ROOT
from tests.support.polling import until
from tests.support.processes import FL_APP
from tests.support.ray_cluster import STORE_BYTES, ray_cluster
from tests.support.runs import assert_same_run

RAY = EngineSection(name="ray")
RESNET = ModelSpec("resnet18", {"width": 2}, {"classes": 4, "in_channels": 1, "image_size": 8})
N_CLIENTS = 5
TEST = make_samples(230, 99)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one node with two CPUs; tests add others."""
    with ray_cluster(num_cpus=2) as made:
        yield made


@pytest.fixture
def on_ray(cluster):
    """Make workers on the cluster, and close them at the end."""
    made = []

    def make(count, clients, engine=RAY, local=LOCAL):
        made.append(make_workers(count, N_CLIENTS, engine))
        made[-1].assign(local, N_CLIENTS, clients.__getitem__, TEST)
        return made[-1]

    yield make
    for workers in made:
        workers.close()


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    pass


def broadcast(model=LOCAL.model):
    w = get_parameters(model.build(seed=1))
    return Broadcast(3, w, np.arange(0, w.size, 2))


def here(clients, local=LOCAL):
    """Return workers of this process that hold the same clients."""
    workers = InProcess()
    workers.assign(local, N_CLIENTS, clients.__getitem__, TEST)
    return workers


def assert_same_reports(some, others):
    assert [report.client for report in some] == [report.client for report in others] == list(range(N_CLIENTS))
    for one, other in zip(some, others, strict=True):
        assert one.loss == other.loss
        np.testing.assert_array_equal(one.payload, other.payload)
        np.testing.assert_array_equal(one.residual, other.residual)


def test_ray_gives_the_same_bits_as_this_process_even_if_a_worker_is_killed(on_ray, tmp_path, caplog):
    shared = TorchData(60)  # its random numbers follow from the seed, too
    clients = [make_samples(20 + n, n) for n in range(2)]
    clients += [DatasetSamples(shared, np.arange(30 * n, 30 * n + 30)) for n in range(2)]
    local = replace(LOCAL, model=RESNET, error_feedback=True)
    one = here([*clients, Deadly(tmp_path, 0, 4)], local)
    two = on_ray(2, [*clients, Deadly(tmp_path, 1, 4)], local=local)
    message = broadcast(RESNET)
    message = replace(message, residuals={n: np.full_like(message.w, n) for n in (1, 2, 4)})
    assert_same_reports(one.train(message), two.train(message))
    assert len(list(tmp_path.iterdir())) == 1
    assert "a worker was lost while training round 3" in caplog.text
    assert len(two._workers) == 2
    for mine, theirs in zip(one.measure(3, message.w), two.measure(3, message.w), strict=True):
        assert mine.keys() == theirs.keys()
        for name, buffer in mine.items():
            np.testing.assert_array_equal(buffer, theirs[name])
    buffers = get_buffers(RESNET.build())
    assert one.evaluate(message.w, buffers) == two.evaluate(message.w, buffers)
    with pytest.raises(WorkerError, match=r"(?s)failed while training round 3.*Traceback.*vector must have shape"):
        two.train(replace(message, w=message.w[:-1]))


def test_cluster_without_a_place_is_told(cluster):
    with pytest.raises(WorkerError, match=r"no node of the Ray cluster has .*cpus_per_client = 3 CPUs"):
        RayWorkers(RAY.with_values(cpus_per_client=3.0), 0, N_CLIENTS)


@pytest.mark.slow
def test_worker_that_dies_again_and_again_ends_the_run(on_ray, tmp_path):
    workers = on_ray(1, [Deadly(tmp_path, 10, n) for n in range(N_CLIENTS)], RAY.with_values(retries=1))
    with pytest.raises(WorkerError, match=r"2 workers in a row were lost while training round 3; .*retries = 1 allows"):
        workers.train(broadcast())
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_clients_of_a_removed_node_go_to_the_others_and_to_a_new_node(on_ray, cluster, tmp_path):
    second = cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    places = RayCluster("", 1).places
    until(lambda: places(1, 0) == 3, "the second node")
    assert places(0.4, 0) == 7  # five on the first node and two on the second one, where 0.2 of a CPU are left
    whole = here([make_samples(20, n) for n in range(N_CLIENTS)]).train(broadcast())
    workers = on_ray(3, [StuckOn(tmp_path, second.node_id, n) for n in range(N_CLIENTS)])
    reports = []
    round_thread = threading.Thread(target=lambda: reports.append(workers.train(broadcast())))
    round_thread.start()
    until(lambda: list(tmp_path.iterdir()), "a client in mid-round on the second node")
    cluster.remove_node(second, allow_graceful=False)
    round_thread.join()
    assert_same_reports(whole, reports[0])
    assert len(workers._workers) == 2
    third = cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    until(lambda: places(1, 0) == 3, "the third node")
    assert_same_reports(whole, workers.train(broadcast()))
    assert len(workers._workers) == 3
    workers.close()
    cluster.remove_node(third)


class CopyOfFairK(FairK):
    """A policy that a user plugs in by its import string."""


def test_policy_by_import_string_selects_the_same_entries(cluster, tiny, tmp_path):
    own = {"policy": f"{__name__}:CopyOfFairK"}
    runs = []
    for name, settings in {
        "here": tiny(),
        "ray": tiny(run={"workers": 1}, engine={"name": "ray"}, selection=own),
    }.items():
        runs.append(RunFolder(tmp_path / name))
        train(settings, runs[-1], lambda _row: None, lambda: False)
    assert_same_run(*runs)  # ages and counts of every entry among the arrays


NET = """
from torch import nn

def build(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, classes))
"""


@pytest.mark.slow
def test_main_process_killed_and_resumed_has_the_same_bits(cluster, program, tiny, tmp_path):
    """The model is in a module of the current folder, which Ray's own processes do not know."""
    (tmp_path / "own_net.py").write_text(NET)
    settings = tiny(
        run={"workers": 2, "rounds": 200, "checkpoint_every": 1},
        model={"name": "own_net:build"},
        engine={"name": "ray", "address": cluster.address},
    )
    (tmp_path / "run.toml").write_text(settings.toml())
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*FL_APP, "train", "run.toml", "--out"]
    killed = program([*command, "killed"], cwd=tmp_path, env=environment)
    metrics = tmp_path / "killed" / "metrics.jsonl"
    killed.reaches(lambda: metrics.exists() and metrics.read_text().count("\n") > 1, "the checkpoint of round 1")
    killed.kill()
    resumed = program([*FL_APP, "resume", "killed", "--rounds", "201"], cwd=tmp_path, env=environment)
    whole = program([*command, "whole", "--engine", "local", "--set", "run.rounds=201"], cwd=tmp_path, env=environment)
    assert resumed.wait() == 0, resumed.text
    assert whole.wait() == 0, whole.text
    assert 0 < int(resumed.err.partition("going on after round ")[2].split()[0]) < 200
    assert_same_run(RunFolder.open(Path(tmp_path / "killed")), RunFolder.open(Path(tmp_path / "whole")))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients in other processes: the same bits as in this one, and a clear word when a process dies."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from fl_app.core.client import Broadcast, LocalTraining
from fl_app.core.models import ModelSpec, build_model, get_parameters
from fl_app.core.samples import ArraySamples
from fl_app.core.steps.local_step import LocalOptions
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.task import Classification
from fl_app.engine.pool import InProcess, ProcessPool, make_workers
from fl_app.engine.worker_process import WorkerError
from tests.fl_app.engine.samples import make_samples
from tests.support.paths import ROOT

LOCAL = LocalTraining(
    seed=7,
    n_clients=5,
    fraction=1.0,
    model=ModelSpec("cnn", facts={"classes": 4, "in_channels": 1, "image_size": 8}),
    task=Classification(),
    H=2,
    epochs=0,
    batch_size=6,
    options=LocalOptions(0.05),
    schedule=RateSchedule(0.05, rounds=9),
    weights=(),
    scheme="analog",
    abstain_below=0.0,
    device="cpu",
    threads=1,
)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


CLIENTS = [make_samples(20 + n, n) for n in range(5)]
TEST = make_samples(730, 99)


def broadcast():
    w = get_parameters(build_model("cnn", 4, 1, 8, seed=1))
    return Broadcast(3, w, np.arange(0, w.size, 2))


@pytest.fixture
def pool():
    workers = ProcessPool(2)
    yield workers
    workers.close()


def test_any_number_of_processes_gives_the_same_bits(pool):
    results = []
    for workers in (InProcess(), pool):
        workers.assign(LOCAL, 5, CLIENTS.__getitem__, TEST)
        message = broadcast()
        reports = workers.train(message)
        assert [report.client for report in reports] == list(range(5))
        results.append((reports, workers.evaluate(message.w, {})))
    (here, score), (there, other_score) = results
    assert score == other_score
    for one, other in zip(here, there, strict=True):
        assert one.loss == other.loss
        np.testing.assert_array_equal(one.payload, other.payload)


def test_no_more_processes_than_clients():
    workers = make_workers(8, n_clients=2)
    assert isinstance(workers, ProcessPool)
    assert len(workers._workers) == 2
    workers.close()


def test_dead_process_is_named(pool):
    pool.assign(LOCAL, 5, CLIENTS.__getitem__, TEST)
    pool.train(broadcast())
    victim = pool._workers[1].process
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    with pytest.raises(WorkerError, match=rf"worker process {victim.pid} was killed by SIGKILL .*out of memory"):
        pool.train(broadcast())


SCRIPT = """
from fl_app.engine.pool import make_workers
from tests.fl_app.engine.test_workers import CLIENTS, LOCAL, TEST, broadcast

workers = make_workers(1, 1)
workers.assign(LOCAL, 1, CLIENTS.__getitem__, TEST)
workers.train(broadcast())
"""


def test_script_without_a_main_guard_is_told_what_is_missing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert f"ended with code 1 while it imported {script}" in last
    assert 'below the line `if __name__ == "__main__":`' in last


def test_failure_in_a_process_brings_its_traceback(pool):
    broken = ArraySamples(
        np.zeros((20, 3, 8, 8), np.float32), np.zeros(20, np.int64)
    )  # three channels for a model of one
    pool.assign(LOCAL, 5, lambda n: broken if n == 3 else CLIENTS[n], TEST)
    with pytest.raises(WorkerError, match=r"(?s)failed while training round 3.*Traceback.*channels"):
        pool.train(broadcast())


def test_processes_ignore_what_ctrl_c_sends_to_the_group_and_end_with_the_pool():
    pool = ProcessPool(2)
    pool.assign(LOCAL, 5, CLIENTS.__getitem__, TEST)
    pool.train(broadcast())
    processes = [worker.process for worker in pool._workers]
    for process in processes:
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
    assert len(pool.train(broadcast())) == 5
    pool.close()
    assert [process.exitcode for process in processes] == [0, 0]

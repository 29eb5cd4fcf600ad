# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the parts of a round of the paper's CIFAR setting, and estimate the round on a Ray cluster from them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.timing import median_seconds
from fl_app.air.make import make_air
from fl_app.config import load_settings
from fl_app.core.client import Broadcast, LocalTraining, local_update
from fl_app.core.models import ModelSpec, get_parameters
from fl_app.core.samples import ArraySamples
from fl_app.core.steps.local_step import LocalOptions
from fl_app.core.task import Classification
from fl_app.engine.pool import make_workers
from fl_app.engine.settings import EngineSection
from fl_app.runs.prepare import make_server

SETTINGS = load_settings("cifar10-noniid")
N, H, B = SETTINGS.clients.n, SETTINGS.clients.H, SETTINGS.clients.batch_size
RESNET = ModelSpec("resnet18", SETTINGS.model.args, {"classes": 10, "in_channels": 3, "image_size": 32})
SIDE = 3342  # a linear layer of SIDE times SIDE weights and SIDE biases has about the d of ResNet-18
LOCAL = LocalTraining(
    seed=1,
    n_clients=N,
    fraction=1.0,
    model=RESNET,
    task=Classification(),
    H=H,
    epochs=0,
    batch_size=B,
    options=LocalOptions(SETTINGS.clients.lr),
    schedule=SETTINGS.clients.schedule(SETTINGS.run.rounds),
    weights=(),
    scheme="analog",
    abstain_below=0.0,
    device="cpu",
    threads=1,
)
ENGINE_CLIENTS = 4
WORKERS = (1, 2, 10, 25, 50)  # workers of one CPU each, for the estimate


def large_and_quick() -> nn.Module:
    """Return a model with as many weights as ResNet-18 and next to no work, so that a round is all transport."""
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE, SIDE))


def cpu_seconds(call: Callable[[], object], turns: int) -> float:
    """Return the median CPU time of a call; unlike the wall clock, other programs hardly change it."""
    seconds = []
    for turn in range(turns + 1):
        begin = time.process_time()
        call()
        if turn:
            seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


def local_step_seconds() -> float:
    """Measure one local step of ResNet-18 at full size on one thread."""
    rng = np.random.default_rng(1)
    images = ArraySamples(rng.normal(size=(B, 3, 32, 32)).astype(np.float32), rng.integers(0, 10, B))
    model = RESNET.build(seed=1)
    w = get_parameters(model)
    batches = [np.arange(B)]
    return cpu_seconds(lambda: local_update(model, images, w, LOCAL.options, batches, rng), turns=3)


def server_seconds(d: int, k: int) -> float:
    """Measure the uplink of all clients through the air `fading`, the server's update and FAIR-k."""
    rng = np.random.default_rng(2)
    server = make_server(SETTINGS, rng.normal(size=d).astype(np.float32))
    server.update(rng.normal(size=d).astype(np.float32), t=0)
    payload, clients = rng.normal(size=(N, k)).astype(np.float32), np.arange(N)
    with make_air(SETTINGS.air, N, seed=1) as air:
        return cpu_seconds(lambda: server.receive(air.uplink(payload, clients, 1).received, t=1), turns=3)


def engine_seconds() -> dict[str, float]:
    """Measure a round of four clients that hardly compute, with two workers of either engine."""
    local = replace(LOCAL, n_clients=ENGINE_CLIENTS, model=ModelSpec(large_and_quick), H=1, batch_size=1)
    w = get_parameters(local.model.build())
    message = Broadcast(1, w, np.sort(np.random.default_rng(3).permutation(w.size)[: w.size // 10]))
    row = ArraySamples(np.ones((1, 1, 1, SIDE), np.float32), np.zeros(1, np.int64))
    sections = EngineSection(name="local"), EngineSection(name="ray")
    engines = {section.name: make_workers(2, ENGINE_CLIENTS, section) for section in sections}
    try:
        for workers in engines.values():
            workers.assign(local, ENGINE_CLIENTS, lambda _n: row, row)
        return median_seconds({name: partial(workers.train, message) for name, workers in engines.items()})
    finally:
        for workers in engines.values():
            workers.close()


def main(console: Console) -> None:
    torch.set_num_threads(1)
    d = sum(parameter.numel() for parameter in RESNET.build().parameters())
    k = SETTINGS.selection.entries(d)
    step, server, engines = local_step_seconds(), server_seconds(d, k), engine_seconds()
    engine = engines["ray"] / ENGINE_CLIENTS * 2  # two clients at a time
    console.print(f"ResNet-18, d = {d:,}, B = {B}, one local step: {step:.2f} s of one CPU")
    console.print(f"air `fading`, server and FAIR-k, N = {N}, k = {k:,}: {server:.2f} s of one CPU")
    console.print(
        f"a round of {ENGINE_CLIENTS} clients without work, d = {(SIDE + 1) * SIDE:,}, 2 workers: local "
        f"{engines['local']:.2f} s, ray {engines['ray']:.2f} s ({engines['ray'] / engines['local']:.2f} times)"
    )
    table = Table(title=f"Estimate of a round: N = {N}, H = {H}, workers of one such CPU each")
    for heading in ("workers", "clients one after the other", "seconds a round", f"{SETTINGS.run.rounds} rounds (h)"):
        table.add_column(heading, justify="right")
    for workers in WORKERS:
        turns = math.ceil(N / workers)
        seconds = turns * (H * step + engine) + server
        table.add_row(str(workers), str(turns), f"{seconds:.0f}", f"{seconds * SETTINGS.run.rounds / 3600:.1f}")
    console.print(table)

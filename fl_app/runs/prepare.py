# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the parts of a run: data, partition, model, policy. The same settings and objects make the same parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fl_app.config import ConfigError, Settings
from fl_app.core.catalog import TASKS
from fl_app.core.client import LocalTraining, placed
from fl_app.core.models import Buffers, ModelFactory, ModelSpec, get_buffers, get_parameters
from fl_app.core.participation import size_weights
from fl_app.core.samples import Samples
from fl_app.core.selection import make_policy
from fl_app.core.server import Server
from fl_app.core.steps.local_step import LocalOptions
from fl_app.core.streams import stream
from fl_app.core.task import Task
from fl_app.core.torch_seed import seeded_torch
from fl_app.data import load_dataset, partition
from fl_app.data.data import Data, as_data, digest_of
from fl_app.data.partition_table import PartitionTable
from oac_blocks.plugins import PluginError, call


@dataclass(frozen=True, eq=False)
class Objects:
    """Hold parts of a run that a Python program gives as objects, in place of those that the settings name."""

    model: ModelFactory | None = None
    data: Data | None = None
    parts: Sequence[NDArray[np.int64]] | None = None  # sample indices of each client
    task: Task | None = None
    policy: Any = None
    air: Any = None


@dataclass(frozen=True, eq=False)
class Prepared:
    """Hold all that the server needs to start round 0."""

    local: LocalTraining
    data_of: Callable[[int], Samples]  # makes a client's samples, so that only the process that trains it holds them
    test: Samples
    server: Server
    buffers: Buffers
    fingerprint: str  # identifies data, split and first weights: a run must not go on with others
    partition: Callable[[], PartitionTable]  # counts which client has how many samples of which class
    class_names: tuple[str, ...] | None
    model: nn.Module  # with the first weights


@dataclass(frozen=True, eq=False)
class PreparedClient:
    """Hold all that one client needs to start."""

    local: LocalTraining
    samples: Samples
    d: int
    fingerprint: str  # equals the server's if both have the same data, split and first weights


@dataclass(frozen=True, eq=False)
class _Common:
    """Hold what server and clients both need."""

    data: Data
    strata: NDArray[np.int64]
    parts: list[NDArray[np.int64]]
    local: LocalTraining
    model: nn.Module

    def samples_of(self, client: int) -> Samples:
        return self.data.train.samples(self.parts[client])

    def partition(self) -> PartitionTable:
        return PartitionTable.count(self.strata, self.parts, self.data.class_names, self.local.task.strata_name)

    def fingerprint(self) -> str:
        return digest_of(self.data, self.parts, get_parameters(self.model))


def prepare(settings: Settings, objects: Objects | None = None) -> Prepared:
    """Prepare the server: data, model and policy. Clients that it trains itself get their samples from the result."""
    objects = objects or Objects()
    common = _prepare_common(settings, objects)
    data = common.data
    return Prepared(
        local=common.local,
        data_of=common.samples_of,
        test=data.test.all(),
        server=make_server(settings, get_parameters(common.model), objects.policy),
        buffers=get_buffers(common.model),
        fingerprint=common.fingerprint(),
        partition=common.partition,
        class_names=data.class_names,
        model=common.model,
    )


def prepare_client(settings: Settings, client: int) -> PreparedClient:
    """Prepare one client: its own samples and its work. It has no server, no air and no test set."""
    common = _prepare_common(settings, Objects())
    d = get_parameters(common.model).size
    return PreparedClient(common.local, common.samples_of(client), d, common.fingerprint())


def _prepare_common(settings: Settings, objects: Objects) -> _Common:
    seed, clients, device = settings.run.seed, settings.clients, _device(settings)
    data = _load(settings, objects)
    task = objects.task or _task(settings, data)
    strata = task.strata(data.train.targets)
    parts = _split(settings, strata) if objects.parts is None else _given_parts(objects.parts, len(strata), clients.n)
    spec = ModelSpec(objects.model or settings.model.name, settings.model.args, data.facts(task))
    model = spec.build(seed=int(stream(seed, "init").integers(2**31)))
    _try(model, task, data, spec.title)
    local = LocalTraining(
        seed=seed,
        n_clients=clients.n,
        fraction=clients.fraction,
        model=spec,
        task=task,
        H=clients.H,
        epochs=clients.epochs,
        batch_size=clients.batch_size,
        options=LocalOptions(clients.lr, clients.momentum, clients.weight_decay, clients.clip_norm, clients.nesterov),
        schedule=clients.schedule(settings.run.rounds),
        weights=tuple(size_weights([len(part) for part in parts]).tolist()) if clients.weighting == "size" else (),
        scheme=settings.air.scheme,
        abstain_below=clients.abstain_below,
        error_feedback=clients.error_feedback,
        device=device,
        threads=settings.run.threads,
    )
    return _Common(data, strata, parts, local, model)


def make_server(settings: Settings, w: NDArray[np.float32], policy: Any = None) -> Server:
    """Make the server that the settings describe, with the first weights w; a policy in place of the settings'."""
    chosen, d = settings.selection, w.size
    k = chosen.entries(d)
    made = make_policy(
        chosen.policy if policy is None else policy,
        d,
        k,
        k_m=round(chosen.k_m_ratio * k),
        r=min(d, round(chosen.r_ratio * k)),
        rng=stream(settings.run.seed, "policy"),
        args=chosen.args,
    )
    schedule = settings.server.schedule(settings.run.rounds)
    return Server(w, made, schedule, settings.air.scheme, settings.server.options(settings.clients).make(d))


def _load(settings: Settings, objects: Objects) -> Data:
    """Load the data set, or a random part of it that depends on the seed alone."""
    chosen, seed = settings.data, settings.run.seed
    if objects.data is not None:
        data = objects.data
    else:
        loaded = load_dataset(chosen.name, chosen.root or None, download=chosen.download, args=chosen.args)
        data = as_data(loaded, f"[data] name = {chosen.name!r}")
    train = _limited(len(data.train), chosen.limit, stream(seed, "limit"))
    test = _limited(len(data.test), chosen.test_limit, stream(seed, "test limit"))
    return data if train is None and test is None else data.subset(train, test)


def _limited(samples: int, limit: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Draw `limit` of the samples; None if all of them are used."""
    return np.sort(rng.permutation(samples)[:limit]) if 0 < limit < samples else None


def _task(settings: Settings, data: Data) -> Task:
    chosen = settings.task
    if not chosen.name:
        return data.task
    try:
        factory = TASKS.load(chosen.name)
    except PluginError as error:
        raise PluginError(f"[task] name = {error}") from None
    task = call(factory, f"[task] name = {chosen.name!r}", chosen.args, {})
    if not isinstance(task, Task):
        raise PluginError(f"[task] name = {chosen.name!r}: it must make a Task, not {type(task).__name__}")
    return task


def _split(settings: Settings, strata: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    data, n, samples = settings.data, settings.clients.n, len(strata)
    if n > samples:
        raise ConfigError(f"[clients] n = {n}: there are only {samples} training samples, and no client may be empty")
    rng = stream(settings.run.seed, "partition")
    return partition(strata, n, data.partition, rng, data.alpha, data.shards_per_client)


def _given_parts(given: Sequence[NDArray[np.int64]], samples: int, n_clients: int) -> list[NDArray[np.int64]]:
    parts = [np.asarray(part, np.int64) for part in given]
    if len(parts) != n_clients:
        raise ConfigError(f"partition has {len(parts)} lists of indices, but there are {n_clients} clients")
    for client, part in enumerate(parts):
        if part.ndim != 1 or not part.size or part.min() < 0 or part.max() >= samples:
            raise ConfigError(f"partition of client {client} must be one or more indices in 0..{samples - 1}")
    return parts


def _try(model: nn.Module, task: Task, data: Data, title: str) -> None:
    """Pass one training sample through the model and the loss, so that a misfit is named before the run starts."""
    first = np.zeros(1, np.int64)
    inputs, targets = placed(data.train.samples(first).batch(first, np.random.default_rng(0)), model)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), seeded_torch(0):
            task.loss(model(inputs), targets)
    except Exception as error:
        told = " ".join(str(error).split())
        raise ConfigError(
            f"{title} does not fit [data] name = {data.name!r} with the task {task.name}: inputs of shape "
            f"{tuple(inputs.shape[1:])} and targets of shape {tuple(targets.shape[1:])} give {type(error).__name__}: "
            f"{told}"
        ) from error
    finally:
        model.train(was_training)


def _device(settings: Settings) -> str:
    name = settings.run.device
    if settings.engine.name == "ray":  # a machine of the cluster has the device; this one may not
        return name
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f'[run] device = {name!r}: torch cannot use it ({first}); "cpu" always works') from None
    return name

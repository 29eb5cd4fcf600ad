# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the parts of a run from its settings: data, partition, model, policy. The same settings make the same parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fl_app.config import ConfigError, Settings
from fl_app.core.client import Samples, Task
from fl_app.core.models import Buffers, build_model, get_buffers, get_parameters
from fl_app.core.selection import make_policy
from fl_app.core.server import Server
from fl_app.core.streams import stream
from fl_app.data import Dataset, load_dataset, partition
from fl_app.data.partition_plot import plot_partition


@dataclass(frozen=True, eq=False)
class Prepared:
    """Hold all that the server needs to start round 0."""

    task: Task
    data_of: Callable[[int], Samples]  # makes a client's samples, so that only the process that trains it holds them
    test: Samples
    server: Server
    buffers: Buffers
    fingerprint: str  # identifies data, split and first weights: a run must not go on with others
    plot: Callable[[Path], None]  # draws the partition


@dataclass(frozen=True, eq=False)
class PreparedClient:
    """Hold all that one client needs to start."""

    task: Task
    samples: Samples
    d: int
    fingerprint: str  # equals the server's if both have the same data, split and first weights


@dataclass(frozen=True, eq=False)
class _Common:
    """Hold what server and clients both need."""

    dataset: Dataset
    parts: list[NDArray[np.int64]]
    task: Task
    w: NDArray[np.float32]
    buffers: Buffers

    def samples_of(self, client: int) -> Samples:
        dataset, part = self.dataset, self.parts[client]
        return Samples(dataset.normalise(dataset.train_images[part]), dataset.train_labels[part])

    def fingerprint(self) -> str:
        return _fingerprint(self.dataset, self.parts, self.w)


def prepare(settings: Settings) -> Prepared:
    """Prepare the server: data, model and policy. Clients that it trains itself get their samples from the result."""
    common = _prepare_common(settings)
    dataset, parts = common.dataset, common.parts
    return Prepared(
        task=common.task,
        data_of=common.samples_of,
        test=Samples(dataset.normalise(dataset.test_images), dataset.test_labels),
        server=_server(settings, common.w),
        buffers=common.buffers,
        fingerprint=common.fingerprint(),
        plot=lambda path: plot_partition(dataset.train_labels, parts, path, dataset.class_names),
    )


def prepare_client(settings: Settings, client: int) -> PreparedClient:
    """Prepare one client: its own samples and the task. It has no server, no air and no test set."""
    common = _prepare_common(settings)
    return PreparedClient(common.task, common.samples_of(client), common.w.size, common.fingerprint())


def _prepare_common(settings: Settings) -> _Common:
    seed, clients, device = settings.run.seed, settings.clients, _device(settings.run.device)
    dataset = _load(settings)
    parts = _split(settings, dataset)
    model = build_model(
        settings.model.name,
        dataset.classes,
        dataset.channels,
        dataset.image_size,
        settings.model.width,
        seed=int(stream(seed, "init").integers(2**31)),
    )
    task = Task(
        seed=seed,
        model_name=settings.model.name,
        classes=dataset.classes,
        channels=dataset.channels,
        image_size=dataset.image_size,
        width=settings.model.width,
        H=clients.H,
        lr=clients.lr,
        batch_size=clients.batch_size,
        scheme=settings.air.mode,
        abstain_below=clients.abstain_below,
        device=device,
        threads=settings.run.threads,
    )
    return _Common(dataset, parts, task, get_parameters(model), get_buffers(model))


def _server(settings: Settings, w: NDArray[np.float32]) -> Server:
    chosen, d = settings.selection, w.size
    k = chosen.entries(d)
    policy = make_policy(
        chosen.policy,
        d,
        k,
        k_m=round(chosen.k_m_ratio * k),
        r=min(d, round(chosen.r_ratio * k)),
        rng=stream(settings.run.seed, "policy"),
    )
    return Server(w, policy, settings.server.lr, settings.air.scheme)


def _load(settings: Settings) -> Dataset:
    """Load the data set, or a random part of it that depends on the seed alone."""
    data, seed = settings.data, settings.run.seed
    dataset = load_dataset(data.name, data.root or None, download=data.download)
    if 0 < data.limit < len(dataset.train_labels):
        kept = np.sort(stream(seed, "limit").permutation(len(dataset.train_labels))[: data.limit])
        dataset = replace(dataset, train_images=dataset.train_images[kept], train_labels=dataset.train_labels[kept])
    if 0 < data.test_limit < len(dataset.test_labels):
        kept = np.sort(stream(seed, "test limit").permutation(len(dataset.test_labels))[: data.test_limit])
        dataset = replace(dataset, test_images=dataset.test_images[kept], test_labels=dataset.test_labels[kept])
    return dataset


def _split(settings: Settings, dataset: Dataset) -> list[NDArray[np.int64]]:
    data, n, samples = settings.data, settings.clients.n, len(dataset.train_labels)
    if n > samples:
        raise ConfigError(f"[clients] n = {n}: there are only {samples} training images, and no client may be empty")
    rng = stream(settings.run.seed, "partition")
    return partition(dataset.train_labels, n, data.partition, rng, data.alpha, data.shards_per_client)


def _fingerprint(dataset: Dataset, parts: Sequence[NDArray[np.int64]], w: NDArray[np.float32]) -> str:
    # Mean and standard deviation depend on every pixel: they stand for the images, so that no image is hashed.
    digest = hashlib.sha256(repr((dataset.name, dataset.mean, dataset.std)).encode())
    for labels_or_indices in (dataset.train_labels, dataset.test_labels, *parts):
        digest.update(labels_or_indices.tobytes())
    digest.update(w.tobytes())
    return digest.hexdigest()


def _device(name: str) -> str:
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f'[run] device = {name!r}: torch cannot use it ({first}); "cpu" always works') from None
    return name

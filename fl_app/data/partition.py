# SPDX-License-Identifier: GPL-3.0-or-later
"""Divide the training samples among the clients.

Every sample goes to exactly one client, and every client gets at least one sample.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oac_blocks.names import canonical

PARTITION_NAMES = ("iid", "dirichlet", "shards")

Parts = list[NDArray[np.int64]]


def partition(
    labels: NDArray[Any],
    n_clients: int,
    how: str,
    rng: np.random.Generator,
    alpha: float = 0.3,
    shards_per_client: int = 2,
) -> Parts:
    """Divide samples 0..len(labels)-1 among clients.

    Parameters
    ----------
    labels
        Class of each sample.
    n_clients
        Number of clients.
    how
        "iid" divides at random, in equal numbers. "dirichlet" divides each class in proportions drawn from a symmetric
        Dirichlet(alpha) over the clients (Hsu et al. 2019), so that clients differ in their classes and in their number
        of samples. "shards" sorts by class, cuts equal shards and gives every client `shards_per_client` at random.
    rng
        Generator for all draws.
    alpha
        Concentration of the Dirichlet distribution, above 0; a small value is uneven, and the paper uses 0.3.
    shards_per_client
        Number of shards of each client.

    Returns
    -------
    list of ndarray
        Sorted sample indices of each client.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be a vector of integers, not {labels.dtype} of shape {labels.shape}")
    n_clients = operator.index(n_clients)
    if not 1 <= n_clients <= len(labels):
        raise ValueError(f"n_clients must be 1..{len(labels)} (there are {len(labels)} samples), not {n_clients}")
    how = canonical("partition", how, PARTITION_NAMES)
    if how == "iid":
        parts = _iid(len(labels), n_clients, rng)
    elif how == "dirichlet":
        if not (math.isfinite(alpha) and alpha > 0):
            raise ValueError(f"alpha must be a finite number above 0, not {alpha}")
        parts = _dirichlet(labels, n_clients, alpha, rng)
    else:
        if shards_per_client < 1:
            raise ValueError(f"shards_per_client must be 1 or more, not {shards_per_client}")
        parts = _shards(labels, n_clients, shards_per_client, rng)
    _feed_the_empty(parts, rng)
    return [np.sort(part) for part in parts]


def _iid(samples: int, n_clients: int, rng: np.random.Generator) -> Parts:
    return list(np.array_split(rng.permutation(samples).astype(np.int64), n_clients))


def _dirichlet(labels: NDArray[Any], n_clients: int, alpha: float, rng: np.random.Generator) -> Parts:
    pieces: list[Parts] = [[] for _ in range(n_clients)]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label).astype(np.int64))
        share = rng.dirichlet(np.full(n_clients, alpha))
        cuts = np.round(np.cumsum(share)[:-1] * len(members)).astype(np.int64)
        for client, piece in enumerate(np.split(members, cuts)):
            pieces[client].append(piece)
    return [np.concatenate(own) for own in pieces]


def _shards(labels: NDArray[Any], n_clients: int, shards_per_client: int, rng: np.random.Generator) -> Parts:
    shuffled = rng.permutation(len(labels)).astype(np.int64)
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    shards = np.array_split(by_class, n_clients * shards_per_client)
    order = rng.permutation(len(shards)).reshape(n_clients, shards_per_client)
    return [np.concatenate([shards[number] for number in own]) for own in order]


def _feed_the_empty(parts: Parts, rng: np.random.Generator) -> None:
    """Give each client without samples one random sample of the client that has most at that moment."""
    for client in [number for number, part in enumerate(parts) if len(part) == 0]:
        richest = max(range(len(parts)), key=lambda number: len(parts[number]))
        gift = int(rng.integers(len(parts[richest])))
        parts[client] = parts[richest][gift : gift + 1]
        parts[richest] = np.delete(parts[richest], gift)

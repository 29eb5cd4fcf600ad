# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries that tell the clients apart, and their error."""

import numpy as np


def own_entries(n_clients, k, seed=0):
    """Votes where each entry has one voter: right or wrong is then clear without fading or noise."""
    rng = np.random.default_rng(seed)
    votes = np.zeros((n_clients, k), np.int8)
    votes[rng.integers(0, n_clients, k), np.arange(k)] = 2 * rng.integers(0, 2, k, np.int8) - 1
    return votes


def relative_error(received, g):
    mean = g.astype(np.float64).mean(axis=0)
    return np.linalg.norm(received - mean) / np.linalg.norm(mean)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Randomness by name: one seed, and an independent stream for each purpose, round and client.

A stream depends on nothing but its name, so a run is the same for any number of workers, and a resumed round draws
what it would have drawn.
"""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """The generator for ``purpose`` (say "batches") at ``indices`` (say round and client)."""
    key = (zlib.crc32(purpose.encode()), *indices)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))

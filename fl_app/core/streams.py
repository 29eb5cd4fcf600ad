# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive independent random streams from one seed: one stream for each purpose, round and client.

A stream depends only on the seed and its name. So a run is the same for any number of workers, and a resumed round
draws the same numbers as the interrupted one.
"""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Return the generator for ``purpose`` (say "batches") at ``indices`` (say round and client)."""
    key = (zlib.crc32(purpose.encode()), *indices)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))

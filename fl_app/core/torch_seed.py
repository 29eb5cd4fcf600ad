# SPDX-License-Identifier: GPL-3.0-or-later
"""Seed torch's global generators for a while, so that what draws from them is the same in every process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded_torch(seed: int | np.random.Generator, device: str = "cpu") -> Iterator[None]:
    """Seed torch's global generators inside the context, and restore their state afterwards.

    Parameters
    ----------
    seed
        The seed, or a generator that draws it.
    device
        The generator of this device is seeded as well as that of the CPU.
    """
    number = seed if isinstance(seed, int) else int(seed.integers(2**63))
    kind = torch.device(device).type
    if kind == "cpu":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(number)
            yield
    else:
        with torch.random.fork_rng(device_type=kind):
            torch.manual_seed(number)
            yield

# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the largest and the oldest entries of torch tensors, on the device where they are."""

from __future__ import annotations

import numpy as np
import torch

from fl_app.core.pools.arrays import draw
from fl_app.core.pools.pool import Pool, negative_age, unordered


class TensorPool(Pool):
    """Mark entries of tensors of one device. Only the positions of drawn ties go there."""

    def __init__(self, g: torch.Tensor, age: torch.Tensor, rng: np.random.Generator, d: int) -> None:
        if g.shape != (d,) or not g.is_floating_point():
            raise ValueError(f"g must hold {d} floating-point values, not {g.dtype} of shape {tuple(g.shape)}")
        if age.shape != (d,) or age.is_floating_point() or age.is_complex() or age.dtype == torch.bool:
            raise ValueError(f"age must hold {d} integers, not {age.dtype} of shape {tuple(age.shape)}")
        if age.device != g.device:
            raise ValueError(f"g and age must be on one device, not on {g.device} and {age.device}")
        if (smallest := int(age.min())) < 0:
            raise negative_age(smallest)
        if nan_entries := int(g.isnan().sum()):
            raise unordered(nan_entries, d)
        self.magnitude, self.age, self.rng = g.abs(), age, rng

    def everything(self) -> torch.Tensor:
        return torch.ones_like(self.age, dtype=torch.bool)

    def others(self, mask: torch.Tensor) -> torch.Tensor:
        return ~mask

    def largest(self, count: int) -> torch.Tensor:
        return self._top(self.magnitude, count, self.everything())

    def oldest(self, count: int, among: torch.Tensor) -> torch.Tensor:
        return self._top(self.age, count, among)

    def random(self, count: int, among: torch.Tensor) -> torch.Tensor:
        return self._add(among, count, torch.zeros_like(among))

    def indices(self, mask: torch.Tensor) -> torch.Tensor:
        return mask.nonzero().flatten()

    def _top(self, values: torch.Tensor, count: int, among: torch.Tensor) -> torch.Tensor:
        if count == 0:
            return torch.zeros_like(among)
        threshold = torch.topk(values[among], count, sorted=False).values.min()
        above = among & (values > threshold)
        return self._add(among & (values == threshold), count - int(above.sum()), above)

    def _add(self, candidates: torch.Tensor, count: int, chosen: torch.Tensor) -> torch.Tensor:
        chosen[draw(candidates.nonzero().flatten(), count, self.rng)] = True
        return chosen

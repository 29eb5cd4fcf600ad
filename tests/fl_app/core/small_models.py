# SPDX-License-Identifier: GPL-3.0-or-later
"""Small models and images for tests."""

from __future__ import annotations

import torch

from fl_app.core.models import (
    build_model,
)


def small_resnet(seed=0):
    return build_model("resnet18", 10, in_channels=3, image_size=32, width=4, seed=seed)


def images(count, seed=0, channels=3, size=32):
    return torch.randn(count, channels, size, size, generator=torch.Generator().manual_seed(seed))

# SPDX-License-Identifier: GPL-3.0-or-later
"""List the models, tasks and policies by name. This module imports none of them, so that a command answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oac_blocks.plugins import Registry

if TYPE_CHECKING:
    from torch import nn

    from fl_app.core.task import Task

MODELS: Registry[Callable[..., nn.Module]] = Registry(
    "model",
    "gr_oac.models",
    {
        "cnn": "fl_app.core.networks.images:cnn",
        "resnet18": "fl_app.core.networks.images:resnet18",
        "gru": "fl_app.core.networks.text:gru",
        "char-transformer": "fl_app.core.networks.text:char_transformer",
        "mlp": "fl_app.core.networks.flat:mlp",
    },
)
TASKS: Registry[Callable[..., Task]] = Registry(
    "task",
    "gr_oac.tasks",
    {
        "classification": "fl_app.core.task:Classification",
        "regression": "fl_app.core.task:Regression",
        "next-character": "fl_app.core.text_task:NextCharacter",
    },
)
POLICIES: Registry[Callable[..., Any]] = Registry(
    "policy",
    "gr_oac.policies",
    {
        "fair-k": "fl_app.core.selection:FairK",
        "top-k": "fl_app.core.selection:TopK",
        "age-top-k": "fl_app.core.selection:AgeTopK",
        "top-rand": "fl_app.core.selection:TopRand",
        "round-robin": "fl_app.core.selection:RoundRobin",
        "rand-k": "fl_app.core.selection:RandK",
        "dense": "fl_app.core.selection:Dense",
        "adaptive-k": "fl_app.core.adaptive:AdaptiveK",
    },
)

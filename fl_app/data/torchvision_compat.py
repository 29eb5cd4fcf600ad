# SPDX-License-Identifier: GPL-3.0-or-later
"""Import torchvision also where its compiled operators do not fit the installed torch.

A torchvision wheel built for CUDA beside a CPU build of torch cannot load its library, and then fails to import with
"operator torchvision::nms does not exist". We use its models and datasets, which need no such operator: declaring the
two names that its import asks for is enough. Where the import works as it is, nothing is declared.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

_declarations: list[Any] = []  # torch forgets a library's operators when the object is collected


def load_torchvision() -> ModuleType:
    """The torchvision package, with `torchvision.models` and `torchvision.datasets` in it."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[module]  # half imported
    declaration = torch.library.Library("torchvision", "DEF")
    declaration.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    declaration.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declarations.append(declaration)
    return importlib.import_module("torchvision")

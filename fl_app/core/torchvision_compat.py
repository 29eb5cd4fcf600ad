# SPDX-License-Identifier: GPL-3.0-or-later
"""Import torchvision even if its compiled operators do not fit the installed torch.

A torchvision wheel built for CUDA cannot load its library beside a CPU build of torch; its import then fails with
"operator torchvision::nms does not exist". This project uses models and data sets, which need no such operator, so
that it is enough to declare the two names that the import needs. If the import works, nothing is declared.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch

_declarations: list[Any] = []  # keeps them alive: torch forgets the operators of a collected library


def load_torchvision() -> ModuleType:
    """Return the torchvision package with `torchvision.models` and `torchvision.datasets` in it."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[module]  # these modules are half imported
    declaration = torch.library.Library("torchvision", "DEF")
    declaration.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    declaration.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declarations.append(declaration)
    return importlib.import_module("torchvision")

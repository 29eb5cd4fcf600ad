# SPDX-License-Identifier: GPL-3.0-or-later
"""Define next-character prediction: after each character of a window of text, the model says which one follows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fl_app.core.sizes import check_sizes
from fl_app.core.task import Task

TEXT_STRATA = 10  # consecutive parts of the text that an uneven split tells apart
LARGEST_EXPONENT = 700.0  # exp() of more than 709.78 overflows a double


class NextCharacter(Task):
    """Predict the next character: cross-entropy per character, bits per character, perplexity and accuracy.

    Inputs and targets are whole numbers of shape (samples, T), the targets one character further on. The model's
    outputs have the shape (samples, T, vocabulary).

    Parameters
    ----------
    vocabulary : int, optional
        Number of different characters. By default one more than the largest target; give it where only a part of the
        text is used, which may lack a rare character.
    """

    name = "next-character"
    main_figure = "bits_per_character"
    strata_name = "tenth of the text"

    def __init__(self, vocabulary: int | None = None) -> None:
        if vocabulary is not None:
            check_sizes(2, vocabulary=vocabulary)
        self._vocabulary = vocabulary

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if outputs.shape[:-1] != targets.shape:
            raise ValueError(f"outputs of shape {tuple(outputs.shape)} do not fit targets {tuple(targets.shape)}")
        return nn.functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1))

    def totals(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        return {"correct": int((outputs.argmax(dim=-1) == targets).sum()), "characters": targets.numel()}

    def figures(self, totals: Mapping[str, float], samples: int, loss: float) -> dict[str, float]:  # noqa: ARG002
        return {
            "bits_per_character": loss / math.log(2),
            "perplexity": math.exp(min(loss, LARGEST_EXPONENT)),
            "accuracy": totals["correct"] / totals["characters"],
        }

    def strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return the tenth of the text that each window lies in; the windows are in the order of the text."""
        return np.arange(len(targets), dtype=np.int64) * TEXT_STRATA // len(targets)

    def facts(self, inputs: NDArray[Any], targets: NDArray[Any]) -> dict[str, Any]:
        return {"vocabulary": self._vocabulary or int(targets.max()) + 1, "context": int(inputs.shape[1])}

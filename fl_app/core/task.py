# SPDX-License-Identifier: GPL-3.0-or-later
"""Define what is learned: the loss, the figures of merit, and the strata that an uneven split goes by.

Classification is one task, regression another; a new one is a subclass of `Task`, or two functions in a `CustomTask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Measure = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # takes outputs and targets

REGRESSION_STRATA = 10  # equally frequent ranges of a target that an uneven split tells apart


class Task(ABC):
    """Say what a model is trained for.

    A task has no state. Test blocks are computed in several processes, so each figure of merit follows from totals
    that add up over the blocks.

    Attributes
    ----------
    name : str
        Name of the task, for errors and configs.
    main_figure : str
        Name of the figure by which runs are compared; "loss" is always there.
    strata_name : str
        What a stratum of an uneven split is called in figures.

    Examples
    --------
    >>> class Robust(oac.Regression):
    ...     name = "robust"
    ...     def loss(self, outputs, targets):
    ...         return torch.nn.functional.l1_loss(outputs.reshape(targets.shape), targets)
    >>> float(Robust().loss(torch.tensor([[1.0], [5.0]]), torch.tensor([0.0, 2.0])))
    2.0
    """

    name: ClassVar[str]
    main_figure: str = "loss"
    strata_name: ClassVar[str] = "class"

    @abstractmethod
    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of a batch, which the clients minimise."""

    def loss_sum(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the sum of the losses of a batch's samples."""
        return self.loss(outputs, targets) * len(targets)

    def totals(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:  # noqa: ARG002
        """Return numbers that add up over batches, and from which `figures` computes the figures of merit."""
        return {}

    def figures(self, totals: Mapping[str, float], samples: int, loss: float) -> dict[str, float]:  # noqa: ARG002
        """Return the figures of merit from the totals over all samples and the mean loss, the main figure first."""
        return {}

    def predicted(self, outputs: torch.Tensor) -> torch.Tensor | None:  # noqa: ARG002
        """Return the class that the model answers for each sample; None if the task tells no classes apart."""
        return None

    def strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return a whole number for each sample: classes, or groups that stand in for them in an uneven split.

        By default these are the classes, or tenths of the range of a number.
        """
        return default_task(targets).strata(targets)

    def facts(self, inputs: NDArray[Any], targets: NDArray[Any]) -> dict[str, Any]:
        """Return what a model may want to know of the data, such as the number of classes."""
        return default_task(targets).facts(inputs, targets)


class Classification(Task):
    """Tell classes apart: cross-entropy, and the share of correct answers.

    Examples
    --------
    >>> task = oac.Classification()
    >>> outputs, targets = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])
    >>> task.figures(task.totals(outputs, targets), samples=2, loss=1.0)
    {'accuracy': 0.5}
    """

    name = "classification"
    main_figure = "accuracy"

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(outputs, targets)

    def loss_sum(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    def totals(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        return {"correct": int((self.predicted(outputs) == targets).sum())}

    def predicted(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs.argmax(dim=1)

    def figures(self, totals: Mapping[str, float], samples: int, loss: float) -> dict[str, float]:  # noqa: ARG002
        return {"accuracy": totals["correct"] / samples}

    def strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        return targets.astype(np.int64)

    def facts(self, inputs: NDArray[Any], targets: NDArray[Any]) -> dict[str, Any]:  # noqa: ARG002
        return {"classes": int(targets.max()) + 1}


class Regression(Task):
    """Predict numbers: mean squared error, its root, and the share of the variance that is explained (R squared).

    Examples
    --------
    >>> task = oac.Regression()
    >>> outputs, targets = torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 5.0])
    >>> task.figures(task.totals(outputs, targets), samples=2, loss=2.0)["r2"]
    0.5
    """

    name = "regression"
    main_figure = "r2"
    strata_name = "tenth of the targets"

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(outputs.reshape(targets.shape), targets)

    def totals(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        wanted, got = targets.double(), outputs.reshape(targets.shape).double()
        return {
            "entries": float(wanted.numel()),
            "squared_error": float(((got - wanted) ** 2).sum()),
            "sum": float(wanted.sum()),
            "squares": float((wanted**2).sum()),
        }

    def figures(self, totals: Mapping[str, float], samples: int, loss: float) -> dict[str, float]:  # noqa: ARG002
        spread = totals["squares"] - totals["sum"] ** 2 / totals["entries"]
        explained = {"r2": 1 - totals["squared_error"] / spread} if spread > 0 else {}
        return {**explained, "rmse": (totals["squared_error"] / totals["entries"]) ** 0.5}

    def strata(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        first = targets.reshape(len(targets), -1)[:, 0]
        edges = np.quantile(first, np.arange(1, REGRESSION_STRATA) / REGRESSION_STRATA)
        return np.searchsorted(edges, first).astype(np.int64)

    def facts(self, inputs: NDArray[Any], targets: NDArray[Any]) -> dict[str, Any]:
        return {"features": int(np.prod(inputs.shape[1:])), "outputs": int(np.prod(targets.shape[1:]))}


class CustomTask(Task):
    """Make a task of a loss and of measures, functions of outputs and targets that return the mean over a batch.

    Parameters
    ----------
    loss : callable
        Returns the mean loss of a batch.
    metrics : mapping, optional
        Measures by name. Runs are compared by the first of them.

    Examples
    --------
    >>> task = oac.CustomTask(torch.nn.functional.huber_loss, {"mae": torch.nn.functional.l1_loss})
    >>> task.totals(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    {'mae': 3.0}
    >>> task.main_figure
    'mae'
    """

    name = "custom"

    def __init__(self, loss: Measure, metrics: Mapping[str, Measure] | None = None) -> None:
        self._loss, self._metrics = loss, dict(metrics or {})
        self.main_figure = next(iter(self._metrics), "loss")

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self._loss(outputs, targets)

    def totals(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        return {name: float(measure(outputs, targets)) * len(targets) for name, measure in self._metrics.items()}

    def figures(self, totals: Mapping[str, float], samples: int, loss: float) -> dict[str, float]:  # noqa: ARG002
        return {name: total / samples for name, total in totals.items()}


def default_task(targets: NDArray[Any]) -> Task:
    """Return the task that targets suggest: classification for whole numbers, otherwise regression."""
    return Classification() if targets.ndim == 1 and targets.dtype.kind in "iub" else Regression()

# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the figures of the rounds for TensorBoard if it is installed."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_app.runs.callbacks import Callback
from fl_app.runs.metrics import RoundFigures, numbers_of

if TYPE_CHECKING:
    from fl_app.runs.run import Run


class Events(Callback):
    """Write every figure of a round as a scalar. Without TensorBoard this does nothing: metrics.jsonl has them all."""

    def __init__(self, folder: Path, rounds_done: int) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        # Rounds after the checkpoint will be written again, so TensorBoard must forget them.
        self._writer = SummaryWriter(str(folder), purge_step=rounds_done or None)
        threading.excepthook = _leave_to_the_writer

    def on_round(self, run: Run, row: RoundFigures) -> None:  # noqa: ARG002
        """Write the figures of a round; raise OSError if an earlier round could not be written (full disk, say)."""
        if self._writer is None:
            return
        for name, value in numbers_of(row).items():
            self._writer.add_scalar(name, value, row.round)

    def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):  # metrics.jsonl has all figures, and its errors are reported
                self._writer.close()


def _leave_to_the_writer(fault: threading.ExceptHookArgs) -> None:
    """Hide errors of TensorBoard's own thread, as TensorBoard raises them again in `on_round`."""
    if not (isinstance(fault.exc_value, OSError) and type(fault.thread).__module__.startswith("tensorboard.")):
        threading.__excepthook__(fault)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the figures of the rounds for TensorBoard if it is installed."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fl_app.runs.metrics import RoundFigures


class Events:
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

    def add(self, row: RoundFigures) -> None:
        """Write the figures of a round; raise OSError if an earlier round could not be written (full disk, say)."""
        if self._writer is None:
            return
        for name, value in asdict(row).items():
            if name != "round" and value is not None:
                self._writer.add_scalar(name, value, row.round)

    def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):  # metrics.jsonl has all figures, and its errors are reported
                self._writer.close()


def _leave_to_the_writer(fault: threading.ExceptHookArgs) -> None:
    """Hide errors of TensorBoard's own thread, as TensorBoard raises them again in `add`."""
    if not (isinstance(fault.exc_value, OSError) and type(fault.thread).__module__.startswith("tensorboard.")):
        threading.__excepthook__(fault)

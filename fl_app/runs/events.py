# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds' figures for TensorBoard, where it is installed."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fl_app.runs.metrics import RoundFigures


class Events:
    """Writes every figure of a round as a scalar. Without TensorBoard it does nothing: metrics.jsonl has it all."""

    def __init__(self, folder: Path, rounds_done: int) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        # Rounds after the checkpoint will be written again: TensorBoard is told to forget them.
        self._writer = SummaryWriter(str(folder), purge_step=rounds_done or None)
        threading.excepthook = _leave_to_the_writer

    def add(self, row: RoundFigures) -> None:
        """OSError if an earlier round could not be written, on a full disk say."""
        if self._writer is None:
            return
        for name, value in asdict(row).items():
            if name != "round" and value is not None:
                self._writer.add_scalar(name, value, row.round)

    def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):  # metrics.jsonl has it all, and is checked
                self._writer.close()


def _leave_to_the_writer(fault: threading.ExceptHookArgs) -> None:
    """TensorBoard writes in a thread of its own and raises its faults once more in `add`: once is enough."""
    if not (isinstance(fault.exc_value, OSError) and type(fault.thread).__module__.startswith("tensorboard.")):
        threading.__excepthook__(fault)

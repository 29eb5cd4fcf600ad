# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the loggers that a config names: callbacks that write the figures of the rounds for other programs."""

from __future__ import annotations

from fl_app.config import Settings
from fl_app.runs.callbacks import Callback, CallbackList
from fl_app.runs.events import Events
from fl_app.runs.run_folder import RunFolder


def make_loggers(settings: Settings, folder: RunFolder, rounds_done: int) -> CallbackList:
    """Make the loggers of a run that has played so many rounds already."""
    made: list[Callback] = []
    if "tensorboard" in settings.run.loggers:
        made.append(Events(folder.events, rounds_done))
    return CallbackList(made)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what a run and its parts say in a file of limited size, run.log."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

MOST_BYTES = 200_000  # largest size of the file, and of the older one beside it


class _Quiet(RotatingFileHandler):
    """Drop a line that cannot be written: a full disk is reported by what matters more."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        return


class LogFile:
    """Write lines, and the warnings of all parts while the file is open."""

    def __init__(self, path: Path) -> None:
        self._handler = _Quiet(path, maxBytes=MOST_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
        self._own = logging.Logger("run")
        self._own.addHandler(self._handler)
        logging.getLogger().addHandler(self._handler)

    def say(self, text: str) -> None:
        self._own.info(text)

    def warn(self, text: str) -> None:
        self._own.warning(text)

    def close(self) -> None:
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()

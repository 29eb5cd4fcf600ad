# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow a file that grows: return whole new lines, and notice when another file has taken its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 1 << 20  # bytes that are read at once, so that a long file does not hold up the page


class NewLines(NamedTuple):
    lines: list[bytes]
    is_new_file: bool  # these are the first lines of another file
    has_more: bool


class Tail:
    """Read a file from its beginning, line by line. A last line without its end is left for later."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path, self._most = path, most_bytes
        self._place, self._file = 0, (-1, -1)  # device and inode

    def read(self) -> NewLines:
        """Return the lines that were completed since the last call."""
        try:
            with self._path.open("rb") as stream:
                about = os.fstat(stream.fileno())
                file = (about.st_dev, about.st_ino)
                is_new = file != self._file or about.st_size < self._place
                if is_new:
                    self._file, self._place = file, 0
                stream.seek(self._place)
                text = stream.read(self._most)
        except FileNotFoundError:
            was_there, self._file, self._place = self._file != (-1, -1), (-1, -1), 0
            return NewLines([], was_there, False)
        whole, end, _torn = text.rpartition(b"\n")
        self._place += len(whole) + len(end)
        has_more = bool(end) and self._place < about.st_size and len(text) == self._most
        return NewLines(whole.split(b"\n") if end else [], is_new, has_more)


def stamp(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file changes; zeros if there is none."""
    try:
        about = path.stat()
    except OSError:
        return 0, 0, 0
    return about.st_mtime_ns, about.st_size, about.st_ino


def last_lines(path: Path, most_bytes: int) -> list[str]:
    """Return the last whole lines of a file, from so many bytes at its end; none if there is no file."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            begin = max(0, size - most_bytes)
            stream.seek(begin)
            text = stream.read(most_bytes)
    except OSError:
        return []
    lines = text.decode("utf-8", "replace").split("\n")
    return lines[1 if begin else 0 : -1]  # the first one may be cut, and the last one torn

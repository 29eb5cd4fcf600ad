# SPDX-License-Identifier: GPL-3.0-or-later
"""Write received rounds into a folder, each as a SigMF recording of its own, and keep the folder small.

    with Recorder(Path("rec"), Facts("a Pluto", 2.45e9, "my bench"), 1000.0) as recorder:
        recorder.round(heard, layout, voting)     # returns at once; a thread of its own writes

A recording appears under its name when it is complete: first the samples, then the metadata. When the folder holds
more than ``most_bytes``, the oldest recordings go. What cannot be written is counted and logged once; nobody who
receives waits for the disk, unless ``waits`` says so.
"""

from __future__ import annotations

import fcntl
import logging
import queue
import re
import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from oac_blocks.dsp.receive.server_stream import HeardRound
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.record.files import DATA, META, PART, RecordError, remove, require_sigmf, write
from oac_blocks.record.metadata import Facts

_LOCK = ".lock"
_OURS = re.compile(r"(\d{6,})-round-\d+\.sigmf-(data|meta)(\.part)?")
_WAITING_ROUNDS = 4
_MEGABYTE = 1_000_000

_log = logging.getLogger(__name__)


class Recorder:
    """Record rounds into a folder, which is made if need be. ``written``, ``dropped`` and ``removed`` count rounds.

    Parameters
    ----------
    folder : Path
        Where the recordings go. Those that are there already stay, and count as the oldest.
    facts : Facts
        What stands in every recording.
    most_mb : float
        Megabytes (1,000,000 bytes) of recordings that the folder may hold. The newest recording always stays.
    waits : bool
        Wait for the disk instead of dropping rounds. For simulations, whose time stands still meanwhile.

    Raises
    ------
    RecordError
        If the package sigmf is missing, another program records into this folder, or the folder cannot be made.
    """

    def __init__(self, folder: Path, facts: Facts, most_mb: float, *, waits: bool = False) -> None:
        require_sigmf()
        self.written = self.dropped = self.removed = 0
        self._folder, self._facts, self._most_bytes, self._waits = folder, facts, most_mb * _MEGABYTE, waits
        self._sizes: dict[str, int] = {}  # bytes of each recording, the oldest first
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
            self._next = self._find_recordings()
        except OSError as error:
            raise RecordError(f"cannot record into {folder}: {error.strerror}") from None
        self._counting = threading.Lock()
        self._closed = False
        self._waiting: queue.Queue[tuple[HeardRound, RoundLayout, Collection[int] | None] | None]
        self._waiting = queue.Queue(_WAITING_ROUNDS)
        self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
        self._thread.start()

    @property
    def summary(self) -> str:
        """Return how many rounds were recorded, in a sentence."""
        parts = [f"{self.written} rounds recorded in {self._folder}"]
        if self.removed:
            parts.append(f"{self.removed} old ones removed")
        if self.dropped:
            parts.append(f"{self.dropped} could not be recorded")
        return ", ".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def round(self, heard: HeardRound, layout: RoundLayout, voting: Collection[int] | None = None) -> None:
        """Record a round. One without samples, because it was missed or given up, is left out."""
        if heard.capture is None or self._closed:
            return
        try:
            self._waiting.put((heard, layout, voting), block=self._waits)
        except queue.Full:
            self._drop(heard.round, "the disk is slower than the rounds")

    def close(self) -> None:
        """Write what waits, and let the folder go. May be called twice."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
            self._thread.join()
            self._lock.close()

    def _find_recordings(self) -> int:
        """Look up what is there, remove what a killed program left half written, and return the first free number."""
        found = [(int(ours[1]), file) for file in self._folder.iterdir() if (ours := _OURS.fullmatch(file.name))]
        for _, file in sorted(found):
            if file.suffix == PART or (file.suffix == DATA and not file.with_suffix(META).exists()):
                file.unlink()
            else:
                self._sizes[file.stem] = self._sizes.get(file.stem, 0) + file.stat().st_size
        return max((number for number, _ in found), default=-1) + 1

    def _write_all(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            heard, layout, voting = waiting
            name = f"{self._next:06d}-round-{heard.round}"
            self._next += 1
            try:
                self._sizes[name] = write(self._folder / name, heard, layout, self._facts, voting)
                self.written += 1
                self._make_room()
            except Exception as error:  # whatever it is: the rounds go on
                self._drop(heard.round, str(error))

    def _make_room(self) -> None:
        while len(self._sizes) > 1 and sum(self._sizes.values()) > self._most_bytes:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            remove(self._folder / oldest)
            self.removed += 1

    def _drop(self, number: int, reason: str) -> None:
        with self._counting:
            self.dropped += 1
            is_first = self.dropped == 1
        if is_first:
            _log.warning(
                "round %d is not recorded: %s (further ones are counted, not logged; the rounds go on)", number, reason
            )


def check_folder(folder: Path) -> None:
    """Raise ``RecordError`` if a recorder could not use this folder now."""
    Recorder(folder, Facts("", 0.0, ""), 0.0).close()


def _locked(folder: Path) -> IO[str]:
    lock = (folder / _LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise RecordError(f"another program records into {folder}; choose another folder") from None
    return lock

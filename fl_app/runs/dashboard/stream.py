# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell pages what is new, as server-sent events: the list of runs, and the runs that a page shows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fl_app.runs.dashboard.listing import Listing
from fl_app.runs.dashboard.reader import RunReader, SeenByPage

LOOK_SECONDS = 0.25  # seconds between two looks at a run's folder
LIST_SECONDS = 1.0  # seconds between two looks for runs
BEAT_SECONDS = 10.0  # seconds without news after which a page is told that the server is there
MOST_COMPARED = 12  # runs that a page compares


class _Watched:
    """Look at something now and then, for all pages together."""

    def __init__(self, look: Callable[[], Any], seconds: float) -> None:
        self._look, self._seconds = look, seconds
        self._lock, self._next = asyncio.Lock(), 0.0
        self.value: Any = None
        self.pages = 0

    async def refresh(self) -> Any:
        """Look, in a thread, unless this was done a moment ago; return what was seen last."""
        async with self._lock:
            if time.monotonic() >= self._next:
                self.value = await asyncio.to_thread(self._look)
                # A long file is read piece by piece, without a pause.
                self._next = 0.0 if self.value is True else time.monotonic() + self._seconds
        return self.value


class Stream:
    """Follow the runs that some page shows, each once, and let go of those that no page shows."""

    def __init__(self, root: Path, is_ending: Callable[[], bool] = lambda: False) -> None:
        self.listing = Listing(root)
        self._is_ending = is_ending
        self._list = _Watched(self.listing.read, LIST_SECONDS)
        self._runs: dict[str, tuple[RunReader, _Watched]] = {}

    async def runs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = await self._list.refresh()
        return listed

    async def events(self, names: Sequence[str]) -> AsyncIterator[str]:
        """Yield events: `runs` with the whole list, and `run` with what is new in one of the runs named."""
        listed: list[dict[str, Any]] | None = None
        told = time.monotonic()
        with ExitStack() as stack:
            shown: dict[str, tuple[RunReader, _Watched, SeenByPage]] = {}
            while True:
                is_ending = self._is_ending()  # before the last look, so that a page sees how a run ended
                for name in names[:MOST_COMPARED]:
                    if name not in shown and (path := await asyncio.to_thread(self.listing.path_of, name)) is not None:
                        shown[name] = (*stack.enter_context(self._watching(name, path)), SeenByPage())
                fresh = await self.runs()
                if fresh != listed:
                    listed, told = fresh, time.monotonic()
                    yield event("runs", fresh)
                for name, (reader, watched, seen) in shown.items():
                    has_more = await watched.refresh()
                    if not has_more and (news := reader.news(seen)):
                        told = time.monotonic()
                        yield event("run", {"id": name, **news})
                if is_ending:
                    yield event("end", {})
                    return
                if time.monotonic() - told > BEAT_SECONDS:
                    told = time.monotonic()
                    yield ": still here\n\n"
                await asyncio.sleep(LOOK_SECONDS)

    @contextmanager
    def _watching(self, name: str, path: Path) -> Iterator[tuple[RunReader, _Watched]]:
        if name not in self._runs:
            reader = RunReader(path)
            self._runs[name] = reader, _Watched(reader.refresh, LOOK_SECONDS / 2)
        reader, watched = self._runs[name]
        watched.pages += 1
        try:
            yield reader, watched
        finally:
            watched.pages -= 1
            if not watched.pages:
                self._runs.pop(name, None)


def event(kind: str, content: Any) -> str:
    """Return a server-sent event with JSON as its data."""
    return f"event: {kind}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Say where the time and the memory of a round go: wrap the steps of a run's objects, and add up what each takes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Let the kernel count this process's peak from its present memory on."""
    _CLEAR.write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """Return the largest resident memory of this process since `forget_peak`, as the kernel has it (VmHWM)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"))
    assert found is not None
    return 1024 * int(found[1])


@dataclass
class Span:
    """Hold what a step took so far."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    calls: int = 0


class Spans:
    """Add up time and memory by the names of steps. A step inside another one counts in both."""

    def __init__(self) -> None:
        self.spans: dict[str, Span] = {}
        self._open: list[Span] = []

    def measured(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same, and counts under this name."""

        def counted(*arguments: Any, **options: Any) -> Any:
            span = self.spans.setdefault(name, Span())
            self._look()
            self._open.append(span)
            forget_peak()
            wall, processor = time.perf_counter(), time.process_time()
            try:
                return call(*arguments, **options)
            finally:
                span.seconds += time.perf_counter() - wall
                span.cpu_seconds += time.process_time() - processor
                span.calls += 1
                self._look()
                self._open.pop()

        return counted

    def _look(self) -> None:
        for span in self._open:
            span.peak_bytes = max(span.peak_bytes, peak_bytes())

    def wrap(self, owner: Any, method: str, name: str) -> None:
        """Count a method of an object or a class from now on."""
        setattr(owner, method, self.measured(name, getattr(owner, method)))

    def of_rounds(self, training: Any) -> Callable[..., Any]:
        """Count the steps of a training's rounds from now on, and return the function that plays a round."""
        self.wrap(training.workers, "train", "train")
        self.wrap(training.air, "uplink", "uplink")
        self.wrap(training.server, "update", "update")
        self.wrap(training.server.policy, "pick", "select")
        return self.measured("round", training.play_round)

    def take(self) -> dict[str, dict[str, float]]:
        """Return what was counted since the last call, as JSON values."""
        taken, self.spans = self.spans, {}
        return {name: asdict(span) for name, span in taken.items()}

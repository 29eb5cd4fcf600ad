# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the clients of a bench as a live table: one row each, with the last measurements."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.table import Table

from oac_blocks.bench.threads.plan import RoundOutcome

_COLUMNS = ("client", "radio", "offset", "sigma", "drift, ppm", "CFO, Hz", "power, dB", "state")
_STYLES = {"tracking": "green", "absent": "red", "uncalibrated": "yellow"}


class BenchTable:
    """The table. With ``corrected`` False, offsets are shown as they would be without any correction."""

    def __init__(self, uris: tuple[str, ...], serials: tuple[str, ...], rate_hz: float, corrected: bool = True) -> None:
        self._uris, self._serials, self._rate_hz, self._corrected = uris, serials, rate_hz, corrected
        self._rows: list[dict[str, Any]] = [{} for _ in uris]
        self._round = -1
        self._live: Live | None = None

    def live(self) -> AbstractContextManager[Any]:
        """Return a context in which a terminal shows the table again after each round."""
        console = Console(stderr=True)
        if not console.is_terminal:
            return nullcontext()
        self._live = Live(self.rendered(), console=console, transient=True, refresh_per_second=8)
        return self._live

    def take(self, outcome: RoundOutcome) -> None:
        """Update the rows with the outcome of a round."""
        self._round = outcome.round
        cfo_rad = outcome.heard_cfo_rad()
        for n, (row, view) in enumerate(zip(self._rows, outcome.views, strict=True)):
            row |= {"state": outcome.states[n], "reason": outcome.absent[n] or view.reason}
            answer, offset = outcome.answers[n], float(outcome.arrivals.offset_samples[n])
            if answer is not None and math.isfinite(offset):
                used = answer.correction_samples or 0.0
                row["offset_samples"] = offset if self._corrected else offset - used
                row["sigma_samples"] = float(outcome.arrivals.sigma_samples[n])
                row["power_db"] = float(outcome.arrivals.power_db[n])
            if math.isfinite(cfo_rad[n]):
                # A positive value means a fast oscillator of the client, which receives the server too low.
                row["cfo_hz"] = -float(cfo_rad[n]) * self._rate_hz / (2 * math.pi)
            row |= {"drift_ppm": view.drift_ppm, "gain_db": view.gain_db, "correction_samples": view.correction_samples}
        if self._live is not None:
            self._live.update(self.rendered())

    @property
    def known(self) -> bool:
        """Return whether every client has been measured, drift included."""
        names = ("offset_samples", "cfo_hz", "drift_ppm", "power_db")
        return all(math.isfinite(row.get(name, math.nan)) for row in self._rows for name in names)

    def rendered(self) -> Table:
        """Return the table to print."""
        table = Table(*_COLUMNS, box=SIMPLE, padding=(0, 1, 0, 0))
        for number, (uri, row) in enumerate(zip(self._uris, self._rows, strict=True)):
            state = row.get("state", "")
            table.add_row(
                str(number),
                uri,
                _text(row.get("offset_samples"), "+.3f"),
                _text(row.get("sigma_samples"), ".3f"),
                _text(row.get("drift_ppm"), "+.2f"),
                _text(row.get("cfo_hz"), "+,.0f"),
                _text(row.get("power_db"), "+.1f"),
                f"[{_STYLES.get(state, 'default')}]{state}[/]",
            )
        table.caption = f"round {self._round}" if self._round >= 0 else "waiting for the first round"
        return table

    def plain(self) -> list[dict[str, Any]]:
        """Return the rows for scripts, with None for unknown values."""
        rows = []
        for number, (uri, serial, row) in enumerate(zip(self._uris, self._serials, self._rows, strict=True)):
            values = {key: None if value != value else value for key, value in row.items()}
            rows.append({"client": number, "uri": uri, "serial": serial, **values})
        return rows


def _text(value: float | None, form: str) -> str:
    return "" if value is None or not math.isfinite(value) else format(value, form)

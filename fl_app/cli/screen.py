# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the bench on one screen: the clients with their states, the round and the figures."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fl_app.config import Settings
from fl_app.core.number_texts import figure_texts, percent

_COUNTED = {"bad": "bad messages dropped", "cut off": "senders cut off", "refused": "clients refused"}
_STYLES = {"working": "cyan", "answered": "green", "ready": "green", "absent": "dim", "silent": "yellow"}


class Screen:
    """Take the server's events and show the state of the run."""

    def __init__(self, settings: Settings, run: str) -> None:
        self._settings, self._run = settings, run
        self._clients: list[dict[str, Any]] = [
            {"id": number, "state": "absent", "late": 0, "seconds": None} for number in range(settings.clients.n)
        ]
        self._ended: dict[int, int] = {}
        self._counts: dict[str, int] = {}
        self._row: dict[str, Any] | None = None
        self._tested: dict[str, str] = {}
        self._note = ""
        self._lines: list[str] = [f"{run}: {settings.headline()}"]
        self.result: dict[str, Any] | None = None

    def take(self, event: dict[str, Any]) -> None:
        """Take one event of the server: a status, the figures of a round, or the result."""
        kind = event.pop("event", None)
        if kind == "status":
            self._clients, self._counts = event["clients"], event["counts"]
        elif kind == "result":
            self.result = event
        elif kind == "round":
            self._row = event
            tested = figure_texts(event["test_accuracy"], event["test_figures"])
            if tested or event["test_loss"] is not None:
                self._tested = tested
                self._lines.append(self._figures())

    def ended(self, client: int, code: int) -> None:
        """Note that a client's process ended before the run was over."""
        if client not in self._ended:
            self._ended[client] = code
            self._lines.append(
                f"client {client} ended with code {code}, too often to be started again; the other clients go on"
            )

    def note(self, text: str) -> None:
        self._note = text
        self._lines.append(text)

    def new_lines(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines

    def render(self) -> RenderableType:
        table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
        by_radio = any("radio" in client for client in self._clients)
        for heading in ("client", "state", *(["radio"] if by_radio else []), "last answer", "late"):
            table.add_column(heading, justify="left" if heading in ("state", "radio") else "right")
        for client in self._clients:
            radio = [_radio(client.get("radio", ""))] if by_radio else []
            answers = (_seconds(client["seconds"]), str(client["late"]))
            table.add_row(str(client["id"]), self._state(client), *radio, *answers)
        parts: list[RenderableType] = [
            Text(self._settings.headline(), style="bold"),
            Text(self._run, style="dim"),
            table,
            Text(self._figures()),
        ]
        dropped = {name: count for name, count in self._counts.items() if name in _COUNTED}
        if dropped:
            parts.append(
                Text("  ".join(f"{_COUNTED[name]}: {count}" for name, count in dropped.items()), style="yellow")
            )
        if self._note:
            parts.append(Text(self._note, style="yellow"))
        return Group(*parts)

    def _state(self, client: dict[str, Any]) -> Text:
        code = self._ended.get(client["id"])
        if code is not None:
            return Text(f"ended with code {code}", style="red")
        return Text(client["state"], style=_STYLES.get(client["state"], ""))

    def _figures(self) -> str:
        row, rounds = self._row, self._settings.run.rounds
        if row is None:
            return f"round 0/{rounds}  waiting for clients"
        loss = "-" if row["loss"] is None else f"{row['loss']:.3f}"
        down = row["downlink_bytes"]
        sent = "-" if down is None else f"{down / 1000:.1f} kB"
        tested = "".join(f"{name} {value}  " for name, value in self._tested.items())
        return (
            f"round {row['round'] + 1}/{rounds}  {tested}loss {loss}  "
            f"AoU {row['mean_aou']:.1f}  vote errors {percent(row['vote_error_rate'])}  "
            f"absent {row['absent_clients']}  {row['seconds']:.2f} s a round  {sent} to each client"
        )


def _radio(state: str) -> Text:
    return Text(state or "not heard", style="green" if state == "tracking" else "yellow")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the log of a calibration: one JSON object per line, a header and one line for each round.

A killed program leaves an incomplete last line. The reader leaves it out and says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from oac_blocks.errors import OacError

FORMAT = "oac-calibration-log"
VERSION = 1
# Columns with one number for each client in each round.
COLUMNS = (
    "offset_samples",  # measured sample offset
    "sigma_samples",  # standard deviation of the offset by the bound
    "residual_samples",  # true sample offset, if it is known
    "correction_samples",  # correction for the coming round
    "doubt_samples",  # the tracker's standard deviation of the coming round's offset
    "client_sample",  # arrival of the trigger in the client's own count
    "drift_ppm",
    "power_db",
    "gain_db",
)

Floats = npt.NDArray[np.float64]


class LogError(OacError, ValueError):
    """A log that cannot be read; the message is for the user."""


class LogWriter:
    """Write a log; each line is complete before the next begins."""

    def __init__(self, file: IO[str], clients: int, sample_rate_hz: float, about: Mapping[str, Any]) -> None:
        self._file = file
        head = {"format": FORMAT, "version": VERSION, "clients": clients, "sample_rate_hz": sample_rate_hz}
        self._write({**head, "about": dict(about)})

    def round(
        self, number: int, kind: str, trigger_sample: float, states: Sequence[str], columns: Mapping[str, Floats]
    ) -> None:
        """Write the line of one round."""
        values = {name: [_or_null(value) for value in columns[name].tolist()] for name in COLUMNS}
        line = {"round": number, "kind": kind, "trigger_sample": _or_null(trigger_sample), "states": list(states)}
        self._write({**line, **values})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()


@dataclass(frozen=True)
class CalibrationLog:
    """All rounds of a log; arrays are (rounds,) or (rounds, clients), NaN for unknown values."""

    clients: int
    sample_rate_hz: float
    about: dict[str, Any]
    rounds: npt.NDArray[np.int64]
    kinds: tuple[str, ...]
    trigger_sample: Floats
    states: tuple[tuple[str, ...], ...]
    columns: dict[str, Floats]
    note: str  # defects that could be left out; empty if there are none


def read_log(path: Path) -> CalibrationLog:
    """Return the log in this file; raise ``LogError`` with the line if it is not a log or is broken."""
    try:
        lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from error
    torn = bool(lines[-1])  # a complete line ends with a newline
    parsed: list[dict[str, Any]] = []
    note = ""
    for number, line in enumerate(lines[:-1] if not torn else lines, 1):
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("not a JSON object")
        except ValueError as error:
            if torn and number == len(lines) and parsed:
                note = f"line {number} is incomplete and was left out"
                break
            raise LogError(f"{path}, line {number}: {error}") from None
        parsed.append(value)
    if not parsed or parsed[0].get("format") != FORMAT:
        raise LogError(f"{path} is not a calibration log: its first line does not contain {FORMAT!r}")
    if parsed[0].get("version") != VERSION:
        raise LogError(f"{path} has version {parsed[0].get('version')!r}; this program reads version {VERSION}")
    if len(parsed) < 2:
        raise LogError(f"{path} has no rounds")
    try:
        return _assembled(parsed[0], parsed[1:], note)
    except (KeyError, TypeError, ValueError) as error:
        raise LogError(f"{path}: {type(error).__name__}: {error}") from error


def _assembled(head: dict[str, Any], rounds: list[dict[str, Any]], note: str) -> CalibrationLog:
    clients = int(head["clients"])
    columns = {name: np.array([[_or_nan(v) for v in line[name]] for line in rounds], np.float64) for name in COLUMNS}
    for name, values in columns.items():
        if values.shape != (len(rounds), clients):
            raise ValueError(f"{name} must have {clients} values in each round")
    return CalibrationLog(
        clients,
        float(head["sample_rate_hz"]),
        dict(head["about"]),
        np.array([int(line["round"]) for line in rounds]),
        tuple(str(line["kind"]) for line in rounds),
        np.array([_or_nan(line["trigger_sample"]) for line in rounds], np.float64),
        tuple(tuple(map(str, line["states"])) for line in rounds),
        columns,
        note,
    )


def _or_null(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)

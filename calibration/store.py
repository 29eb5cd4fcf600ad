# SPDX-License-Identifier: GPL-3.0-or-later
"""Store the result of a radio's last calibration in a file, from which the next calibration starts its search.

The stored values are only a start and must be confirmed by measurements, because streams that start again have a
different offset. A file that is broken or belongs to another radio is an error and is never overwritten.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomlkit

from oac_blocks.dsp.checks import real, require
from oac_blocks.errors import OacError
from oac_blocks.loop.states import ClientView, Guess

FORMAT = "oac-calibration"
VERSION = 1
MANY_VERSION = 2  # version of a file with several radios
FILE_NAME = "calibration.toml"
_SERIAL = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class StoreError(OacError, ValueError):
    """A calibration file that cannot be used; the message is for the user."""


@dataclass(frozen=True)
class StoredCalibration:
    """The calibration of one radio."""

    serial: str
    measured_at: datetime
    sample_rate_hz: float
    turnaround_samples: float
    correction_samples: float
    gain_db: float = 0.0
    drift_ppm: float | None = None
    sigma_samples: float | None = None  # the tracker's standard deviation

    def __post_init__(self) -> None:
        good = isinstance(self.serial, str) and _SERIAL.fullmatch(self.serial) is not None
        require(good, "serial", repr(self.serial), "1 to 128 letters, digits or one of _ . : -")
        aware = isinstance(self.measured_at, datetime) and self.measured_at.tzinfo is not None
        require(aware, "measured_at", self.measured_at, "a time with its time zone")
        for name in ("sample_rate_hz", "turnaround_samples"):
            real(name, getattr(self, name), 0.0, open_low=True)
        for name in ("correction_samples", "gain_db"):
            real(name, getattr(self, name))
        for name in ("drift_ppm", "sigma_samples"):
            if getattr(self, name) is not None:
                real(name, getattr(self, name))

    def guess(self, sample_rate_hz: float, turnaround_samples: float) -> Guess:
        """Return the start of a search.

        At another rate or turnaround the correction is invalid, and only the gain is kept.
        """
        same = (sample_rate_hz, turnaround_samples) == (self.sample_rate_hz, self.turnaround_samples)
        return Guess(self.correction_samples if same else 0.0, self.gain_db)

    def age_seconds(self, now: datetime | None = None) -> float:
        """Return the seconds since the calibration was measured."""
        return ((datetime.now(UTC) if now is None else now) - self.measured_at).total_seconds()


def of_client(
    view: ClientView,
    serial: str,
    sample_rate_hz: float,
    turnaround_samples: float,
    measured_at: datetime | None = None,
) -> StoredCalibration:
    """Return the loop's knowledge of a client that is tracking."""
    require(view.state == "tracking", "state", view.state, "tracking (other states are not worth storing)")
    return StoredCalibration(
        serial,
        datetime.now(UTC) if measured_at is None else measured_at,
        sample_rate_hz,
        turnaround_samples,
        view.correction_samples,
        view.gain_db,
        _known(view.drift_ppm),
        _known(view.sigma_samples),
    )


def path_of(folder: Path, serial: str) -> Path:
    """Return the file of a radio; each radio has a folder with its serial number as name."""
    require(
        _SERIAL.fullmatch(serial) is not None and serial.strip(".") != "", "serial", repr(serial), "a serial number"
    )
    return folder / serial / FILE_NAME


def read(path: Path, serial: str) -> StoredCalibration | None:
    """Return the file's calibration of this radio; None if there is no file. Raise ``StoreError`` if it is invalid."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    try:
        table = tomllib.loads(content.decode("utf-8"))
        if table.pop("format", None) != FORMAT:
            raise ValueError(f"it does not contain format = {FORMAT!r}")
        if (number := table.pop("version", None)) != VERSION:
            raise ValueError(f"it has version {number!r}, and this program reads version {VERSION}")
        unknown = set(table) - {field.name for field in fields(StoredCalibration)}
        if unknown:
            raise ValueError(f"unknown key {sorted(unknown)[0]!r}")
        stored = StoredCalibration(**table)
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path} is not a readable calibration file: {error}. Move it away to start again") from error
    if stored.serial != serial:
        raise StoreError(f"{path} belongs to radio {stored.serial}, not to {serial}")
    return stored


def write(path: Path, stored: StoredCalibration) -> None:
    """Write the file atomically; a file that is broken or belongs to another radio is not changed."""
    read(path, stored.serial)
    # These two keys come last, so that half a file is not mistaken for a whole one.
    _replace(path, {**_values(stored), "version": VERSION, "format": FORMAT})


def read_many(path: Path, serials: Sequence[str]) -> dict[str, StoredCalibration]:
    """Return the file's calibrations of all these radios.

    Raise ``StoreError`` if there is no file or one is missing.
    """
    stored = _radios_of(path)
    if stored is None:
        raise StoreError(f"{path} does not exist")
    missing = [serial for serial in serials if serial not in stored]
    if missing:
        raise StoreError(f"{path} belongs to radio {', '.join(stored)}, and has no entry for {', '.join(missing)}")
    return {serial: stored[serial] for serial in serials}


def check_many(path: Path, serials: Sequence[str]) -> None:
    """Raise ``StoreError`` if the file is broken or belongs to another radio, so that it must not be overwritten."""
    others = [serial for serial in _radios_of(path) or {} if serial not in serials]
    if others:
        raise StoreError(
            f"{path} belongs to another radio, {', '.join(others)}, and is not changed; choose another name"
        )
    if not path.absolute().parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.absolute().parent}")


def write_many(path: Path, calibrations: Sequence[StoredCalibration], serials: Sequence[str]) -> None:
    """Write new calibrations of some of the radios ``serials``; the file's entries of the others stay."""
    check_many(path, serials)
    known = (_radios_of(path) or {}) | {one.serial: one for one in calibrations}
    about = {"version": MANY_VERSION, "format": FORMAT}
    _replace(path, {"radio": [_values(stored) for stored in known.values()], "file": about})


def _radios_of(path: Path) -> dict[str, StoredCalibration] | None:
    """Return all radios of a file, by their serial numbers; None if there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    try:
        table = tomllib.loads(content.decode("utf-8"))
        if table.get("format") == FORMAT and table.get("version") == VERSION:  # a file of one radio
            names = {field.name for field in fields(StoredCalibration)}
            stored = [StoredCalibration(**{key: value for key, value in table.items() if key in names})]
        else:
            if table.get("file") != {"version": MANY_VERSION, "format": FORMAT}:
                raise ValueError(f"it does not contain format = {FORMAT!r} and version = {MANY_VERSION}")
            stored = [StoredCalibration(**values) for values in table.get("radio", [])]
        if not stored:
            raise ValueError("it names no radio")
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path} is not a readable calibration file: {error}. Move it away to start again") from error
    return {one.serial: one for one in stored}


def _values(stored: StoredCalibration) -> dict[str, Any]:
    values = {field.name: getattr(stored, field.name) for field in fields(StoredCalibration)}
    return {name: value for name, value in values.items() if value is not None}


def _replace(path: Path, table: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            tomlkit.dump(table, file)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def _known(value: float) -> float | None:
    return None if value != value else value

# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds on the wall clock: ``oac-calibrate track`` on three virtual Plutos, each side in a process of its own.

Two clients at +-20 ppm with a wobble of 1 ppm, 17 dB of SNR a sample. If wanted, the process that has all three radios
is frozen for a while in the middle: the host of a real bench has such moments.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_POLL_SECONDS = 0.02
_RADIOS = 3
_AIR = ("--ppm", "20", "--wobble", "1", "--snr", "26")


@dataclass(frozen=True)
class Round:
    kind: str
    states: tuple[str, ...]
    offset_samples: npt.NDArray[np.float64]  # as measured, NaN for a client that was not heard
    seen_seconds: float  # of the wall clock

    @property
    def usable(self) -> bool:
        """Everybody has sent payload, and is where it belongs."""
        return (
            self.kind == "payload"
            and set(self.states) == {"tracking"}
            and bool(np.all(np.isfinite(self.offset_samples)))
        )


@dataclass(frozen=True)
class Run:
    rounds: list[Round]
    result: dict[str, Any]  # what the command says at its end
    thawed_seconds: float | None
    slowed_share: float  # by how much the air's time was slower than the clock: the simulation was too slow

    @property
    def usable_share(self) -> float:
        return float(np.mean([one.usable for one in self.rounds]))

    def settled_offsets(self) -> npt.NDArray[np.float64]:
        """Of usable rounds with a usable one before: in the first after an acquisition the loop still learns."""
        pairs = zip(self.rounds, self.rounds[1:], strict=False)
        return np.array([now.offset_samples for before, now in pairs if before.usable and now.usable])

    @property
    def recovery_seconds(self) -> float:
        """From the end of the freeze to the first usable round that was not under way then; infinite if none was."""
        assert self.thawed_seconds is not None
        later = [one for one in self.rounds if one.seen_seconds > self.thawed_seconds]
        broken = next((i for i, one in enumerate(later[:3]) if not one.usable), 0)  # if it was noticed at all
        back = (one.seen_seconds - self.thawed_seconds for one in later[broken:] if one.usable)
        return next(back, float("inf"))


def run(rate_hz: float, rounds: int, *, frozen_seconds: float = 0.0, air: Sequence[str] = _AIR) -> Run:
    """The freeze comes after half of the rounds."""
    with tempfile.TemporaryDirectory() as folder, _Plutos(*air) as plutos:
        uris = plutos.uris
        log = Path(folder) / "track.jsonl"
        words = ["--server", uris[0], "--client", uris[1], "--client", uris[2], "--rate", f"{rate_hz:g}"]
        words += ["--frequency", "2.4e9", "--rx-gain", "50", "--tx-gain", "-10", "--rounds", str(rounds)]
        words += ["--log", str(log), "--json"]
        program = _program("calibration.cli", "track", *words)
        seen: list[float] = []
        thawed = None
        while program.poll() is None:
            time.sleep(_POLL_SECONDS)
            lines = log.read_text().count("\n") - 1 if log.exists() else 0
            seen += [time.monotonic()] * (lines - len(seen))
            if frozen_seconds and thawed is None and lines >= rounds // 2:
                program.send_signal(signal.SIGSTOP)
                time.sleep(frozen_seconds)
                program.send_signal(signal.SIGCONT)
                thawed = time.monotonic()
        told, complaint = program.communicate()
        if not told:
            raise RuntimeError(f"oac-calibrate track: {complaint}")
        return Run(_rounds(log, seen), json.loads(told), thawed, plutos.stop())


def _rounds(log: Path, seen: list[float]) -> list[Round]:
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    seen = seen + [time.monotonic()] * (len(lines) - len(seen))
    return [
        Round(line["kind"], tuple(line["states"]), np.array(line["offset_samples"], np.float64), at)
        for line, at in zip(lines, seen, strict=True)
    ]


class _Plutos:
    """In a process of their own: time does not stop there when this one is busy."""

    def __init__(self, *options: str) -> None:
        count = ("--radios", str(_RADIOS), "--base-port", "0")
        self._process = _program("oac_blocks.radio.virtual.cli", *count, *options)
        assert self._process.stdout is not None
        self.uris = [self._process.stdout.readline().split()[1] for _ in range(_RADIOS)]

    def stop(self) -> float:
        """By which share of its time the air was slower than the clock."""
        self._process.terminate()
        told, _ = self._process.communicate()
        words = told.splitlines()[
            -1
        ].split()  # "12.3 s passed on the air in 45.6 s of the wall clock (27% of real time)"
        air, wall = float(words[0]), float(words[7])
        return (wall - air) / max(air, 1e-9)

    def __enter__(self) -> _Plutos:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.communicate()


def _program(module: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"from {module} import app; app()", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

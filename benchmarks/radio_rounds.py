# SPDX-License-Identifier: GPL-3.0-or-later
"""Play rounds on the wall clock: ``oac-calibrate track`` on three virtual Plutos, in two processes.

Two clients have +-20 ppm with a wobble of 1 ppm and 17 dB of SNR per sample. On request, the process that drives all
three radios is frozen for a while in the middle, as the host of a real bench may be.
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
    offset_samples: npt.NDArray[np.float64]  # as measured; NaN for a client that was not heard
    seen_seconds: float  # wall-clock time at which the round was seen

    @property
    def usable(self) -> bool:
        """Say whether all clients have sent payload and are aligned."""
        return (
            self.kind == "payload"
            and set(self.states) == {"tracking"}
            and bool(np.all(np.isfinite(self.offset_samples)))
        )


@dataclass(frozen=True)
class Run:
    rounds: list[Round]
    result: dict[str, Any]  # the result that the command prints at its end
    thawed_seconds: float | None
    slowed_share: float  # share by which the air was slower than the wall clock, if the simulation was too slow

    @property
    def usable_share(self) -> float:
        return float(np.mean([one.usable for one in self.rounds]))

    def settled_offsets(self) -> npt.NDArray[np.float64]:
        """Return the offsets of usable rounds that follow a usable one: after an acquisition the loop still learns."""
        pairs = zip(self.rounds, self.rounds[1:], strict=False)
        return np.array([now.offset_samples for before, now in pairs if before.usable and now.usable])

    @property
    def recovery_seconds(self) -> float:
        """Return the seconds from the end of the freeze to the first usable round that began after it, or infinity."""
        assert self.thawed_seconds is not None
        later = [one for one in self.rounds if one.seen_seconds > self.thawed_seconds]
        broken = next((i for i, one in enumerate(later[:3]) if not one.usable), 0)  # if the freeze had an effect at all
        back = (one.seen_seconds - self.thawed_seconds for one in later[broken:] if one.usable)
        return next(back, float("inf"))


def run(rate_hz: float, rounds: int, *, frozen_seconds: float = 0.0, air: Sequence[str] = _AIR) -> Run:
    """Play rounds; the freeze comes after half of them."""
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
    """Run the virtual Plutos in their own process: their time does not stop while this process is busy."""

    def __init__(self, *options: str) -> None:
        count = ("--radios", str(_RADIOS), "--base-port", "0")
        self._process = _program("oac_blocks.radio.virtual.cli", *count, *options)
        assert self._process.stdout is not None
        self.uris = [self._process.stdout.readline().split()[1] for _ in range(_RADIOS)]

    def stop(self) -> float:
        """Stop the air, and return the share of its time by which it was slower than the wall clock."""
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Hear a recorded round once more with the server's receiver, and compare it with what was heard then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.receive.server_stream import HeardRound, ServerStream
from oac_blocks.dsp.waveform.frame import FrameLayout
from oac_blocks.record.files import RecordError, Recording
from oac_blocks.record.metadata import digest, finite, soft_votes

EQUAL, DIFFERENT = "equal", "different"
_COLUMNS = ("offset_samples", "sigma_samples", "power_db", "snr_db", "cfo_rad")


@dataclass(frozen=True, eq=False)
class Replayed:
    """A round as the receiver hears it now, and whether that is what it heard then.

    ``verdict`` is "equal" if all soft votes and energies of a payload round are the same bit for bit, or all offsets
    of an acquire round. ``arrivals`` says so of the offsets in any round.
    """

    path: Path  # path of the recording, without the ending
    samples: int
    frame: FrameLayout | None  # layout of a payload round
    heard: HeardRound
    verdict: str
    arrivals: str
    soft_votes: npt.NDArray[np.float32] | None

    @property
    def is_equal(self) -> bool:
        """Return whether the verdict is "equal"."""
        return self.verdict == EQUAL

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON, which knows no NaN."""
        heard = self.heard
        clients = [
            {"client": client, **{name: finite(float(getattr(heard, name)[client])) for name in _COLUMNS}}
            for client in np.flatnonzero(np.isfinite(heard.offset_samples)).tolist()
        ]
        result: dict[str, Any] = {
            "file": str(self.path),
            "round": heard.round,
            "kind": heard.kind,
            "samples": self.samples,
            "trigger_sample": heard.trigger_sample,
            "trigger_snr_db": heard.trigger_snr_db,
            "clients": clients,
            "verdict": self.verdict,
            "arrivals": self.arrivals,
        }
        if self.frame is not None and self.soft_votes is not None:
            frame = self.frame
            result |= {"votes": len(self.soft_votes), "symbols": frame.symbols, "groups": frame.groups}
            result["snr_db"] = finite(heard.mean_snr_db)
        return result


def replay(recording: Recording) -> Replayed:
    """Run the server's receiver on a recording.

    Raises
    ------
    RecordError
        If the receiver finds no trigger in it.
    """
    stream = ServerStream(recording.layout, **recording.capture.settings)
    stream.resume(recording.capture.mark)
    stream.expect(recording.round, recording.kind, recording.k)
    heard = stream.push(recording.capture.samples)
    # Where answers come early, the search has not decided yet; silence lets it.
    heard = heard or stream.push(np.zeros(stream.search.latency_samples, np.complex64))
    if not heard:
        raise RecordError(f"{recording.path}: the receiver finds no trigger in it")
    return _compared(recording, heard[0])


def _compared(recording: Recording, heard: HeardRound) -> Replayed:
    found = {
        client: float(heard.offset_samples[client])
        for client in np.flatnonzero(np.isfinite(heard.offset_samples)).tolist()
    }
    same_arrivals = heard.trigger_sample == recording.trigger_sample and found == recording.offset_samples
    votes, same = None, same_arrivals
    if heard.energies is not None:
        votes = soft_votes(heard, recording.voting)
        now = digest(heard.energies), digest(votes)
        same = now == (recording.energies_sha256, recording.soft_votes_sha256)
    verdict, arrivals = (EQUAL if one else DIFFERENT for one in (same, same_arrivals))
    frame = None if recording.k is None else recording.layout.frame(recording.k)
    return Replayed(recording.path, len(recording.capture.samples), frame, heard, verdict, arrivals, votes)

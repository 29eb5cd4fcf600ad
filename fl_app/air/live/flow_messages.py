# SPDX-License-Identifier: GPL-3.0-or-later
"""What an application and a flowgraph tell each other about a round, as bytes on a socket (docs/rounds.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fl_app.air.observed import Observation, radio_observation
from oac_blocks.blocks.support import pdus
from oac_blocks.blocks.support.pmt_bytes import deserialise, serialise
from oac_blocks.dsp.checks import integer
from oac_blocks.dsp.waveform.round_layout import agreed_in
from oac_blocks.rounds.messages import Call, call_of, numbers_in


class Decision(NamedTuple):
    """What the server's receiver made of a round."""

    call: Call
    heard: tuple[int, ...]  # numbers of the clients whose votes are in it
    soft_votes: npt.NDArray[np.float32]
    snr_db: float
    waveform: Mapping[str, float] = {}  # the flowgraph's numbers, by their names in [air]; empty if it tells none


class Report(NamedTuple):
    """What the calibrator knows of the clients' radios, and the flowgraph's waveform as in ``Decision``."""

    round: int  # the last round that the calibrator has measured
    states: tuple[str, ...]
    waveform: Mapping[str, float]
    # Of each client, as it was measured last; NaN if it was not. An older flowgraph tells none.
    offset_samples: npt.NDArray[np.float64]
    power_db: npt.NDArray[np.float64]
    cfo_rad: npt.NDArray[np.float64]


def read_call(message: bytes) -> tuple[Call, float]:
    """The round that is called for, and for how many seconds its votes are waited for; ValueError if it is none."""
    about = _notice(deserialise(message))
    seconds = about.get("seconds", 0.0)
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ValueError(f"seconds must be a number from 0 on, got {seconds!r}")
    return call_of(about), float(seconds) or math.inf


def read_decision(message: bytes) -> Decision:
    """ValueError if it is none."""
    pdu = deserialise(message)
    about, soft_votes = _notice(pdu), pdus.read(pdu, np.float32)
    if isinstance(soft_votes, str):
        raise ValueError(soft_votes)
    heard, snr_db = about.get("heard"), about.get("snr_db")
    if not isinstance(heard, str) or not isinstance(snr_db, float):
        raise ValueError(f"soft votes must come with heard and snr_db, got {sorted(about)}")
    return Decision(call_of(about), numbers_in(heard), soft_votes.data, snr_db, agreed_in(about))


def read_report(message: bytes) -> Report:
    """Return the calibrator's report; ValueError if the message is none."""
    about = _notice(deserialise(message))
    states = about.get("states")
    if not isinstance(states, str):
        raise ValueError("a report must have states")
    one_each = states.split(", ")
    measured = [_vector(about.get(name), len(one_each)) for name in ("offset_samples", "power_db", "cfo_rad")]
    return Report(integer("round", about.get("round"), -1), tuple(one_each), agreed_in(about), *measured)


def observation_of(report: Report | None, sample_rate_hz: float) -> Observation | None:
    """Describe the clients' radios as the calibrator's last report has them."""
    if report is None:
        return None
    return radio_observation(report.states, report.offset_samples, report.power_db, report.cfo_rad, sample_rate_hz)


def payload(call: Call, client: int, votes: npt.NDArray[Any]) -> bytes:
    """A client's votes or entries, for its transceiver."""
    return serialise(pdus.make(votes, {"client": client, **call._asdict()}))


def ballot(call: Call, votes: int, takes_part: Sequence[bool]) -> bytes:
    """How many votes the round has, and which clients take part: for all transceivers."""
    return serialise(pdus.make(np.array(takes_part, np.int8), {"votes": votes, **call._asdict()}))


def _vector(values: Any, length: int) -> npt.NDArray[np.float64]:
    vector = np.asarray(values if isinstance(values, list | tuple | np.ndarray) else (), np.float64)
    return vector if vector.shape == (length,) else np.full(length, np.nan)


def _notice(message: Any) -> dict[str, Any]:
    about = pdus.read_notice(message)
    if isinstance(about, str):
        raise ValueError(about)
    return about

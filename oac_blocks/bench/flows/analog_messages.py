# SPDX-License-Identifier: GPL-3.0-or-later
"""What an application and the analog loopback tell each other about a round, as PMTs, and where. No flowgraph here.

The application sends ``go``, once the clients are ready, and the entries of each client that takes part, in any order.
What the server made of the sum comes back. The application counts rounds; a ``run`` tells two of its lives apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pmt

from oac_blocks.blocks.support import pdus
from oac_blocks.dsp.checks import finite, integer, real, require
from oac_blocks.rounds.messages import Call, call_of

Entries = npt.NDArray[np.float32]


@dataclass(frozen=True)
class AnalogEndpoints:
    go: str  # the application pushes to these
    payload: str
    entries: str  # and pulls from this

    @classmethod
    def in_folder(cls, folder: Path) -> AnalogEndpoints:
        return cls(*(f"ipc://{folder / name}" for name in ("go", "payload", "entries")))


@dataclass(frozen=True)
class Go:
    """The server's word that the round begins: one scale for all, and what its receiver is set to."""

    call: Call
    entries: int  # number of entries that each client sends
    takes_part: tuple[bool, ...]  # one for each client
    scale: float  # amplitude of an entry of 1
    snr_db: float | None = None  # of a unit subcarrier; None: no noise
    adc_full_scale: float = 1.0

    def __post_init__(self) -> None:
        integer("entries", self.entries, 1)
        require(any(self.takes_part), "takes_part", list(self.takes_part), "true for at least one client")
        real("scale", self.scale, 0.0, open_low=True)
        real("adc_full_scale", self.adc_full_scale, 0.0, open_low=True)
        if self.snr_db is not None:
            real("snr_db", self.snr_db, -200.0, 200.0)

    @property
    def senders(self) -> set[int]:
        """The numbers of those who take part."""
        return {client for client, speaks in enumerate(self.takes_part) if speaks}

    def message(self) -> Any:
        about: dict[str, Any] = {
            **self.call._asdict(),
            "entries": self.entries,
            "scale": float(self.scale),
            "adc_full_scale": float(self.adc_full_scale),
        }
        if self.snr_db is not None:
            about["snr_db"] = float(self.snr_db)
        return pdus.make(np.array(self.takes_part, np.int8), about)


class Payload(NamedTuple):
    call: Call
    client: int
    entries: Entries

    def message(self) -> Any:
        return pdus.make(self.entries, {"client": self.client, **self.call._asdict()})


class Heard(NamedTuple):
    """The server's estimate of the participants' mean."""

    call: Call
    entries: Entries


def read_go(message: Any) -> Go:
    """ValueError if it is none."""
    about, takes_part = _read(message, np.int8)
    return Go(
        call_of(about),
        about.get("entries", 0),
        tuple((takes_part != 0).tolist()),
        about.get("scale", 0.0),
        about.get("snr_db"),
        about.get("adc_full_scale", 1.0),
    )


def read_payload(message: Any) -> Payload:
    """ValueError if it is none."""
    about, entries = _read(message, np.float32)
    finite("entries", entries)  # NaN would end in a burst that is never sent, and all others would wait for it
    return Payload(call_of(about), integer("client", about.get("client"), 0), entries)


def read_heard(message: Any) -> Heard:
    """ValueError if it is none."""
    about, entries = _read(message, np.float32)
    return Heard(call_of(about), entries)


def _read(message: Any, dtype: npt.DTypeLike) -> tuple[dict[str, Any], npt.NDArray[Any]]:
    pdu = pdus.read(message, dtype)
    if isinstance(pdu, str):
        raise ValueError(pdu)
    return {name: pmt.to_python(value) for name, value in pdu.metadata.items()}, pdu.data

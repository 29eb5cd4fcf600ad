# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the section [link] of a config: deadlines, and how many clients make a round.

The section changes no result if all clients answer in time.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from oac_blocks.bench.section import Section

if TYPE_CHECKING:
    from fl_app.config import Settings

DEFAULT_PORT = 7780


class LinkSection(Section):
    SECTION: ClassVar[str] = "link"

    bind: str = Field(
        f"tcp://127.0.0.1:{DEFAULT_PORT}",
        min_length=1,
        description="where the server listens: tcp://HOST:PORT, ipc://PATH",
    )
    min_clients: int = Field(
        1, ge=1, description="answers, and on radios clients heard, that a round needs to count, or it is repeated"
    )
    join_seconds: float = Field(60.0, gt=0, description="seconds for which the first round waits for all N clients")
    round_seconds: float = Field(60.0, gt=0, description="seconds until a round's deadline; later answers do not count")
    patience_seconds: float = Field(600.0, gt=0, description="seconds with fewer than min_clients before the run ends")
    heartbeat_seconds: float = Field(1.0, ge=0.01, le=60, description="seconds between two heartbeats of each side")
    silent_seconds: float = Field(10.0, gt=0, description="seconds of silence before a client is no longer waited for")
    cut_off_after: int = Field(5, ge=1, description="bad messages after which a sender is cut off")
    radio: str = Field("", description="the server's flowgraph, if votes go by radio: tcp://HOST:PORT, ipc://FOLDER")
    audit_votes: bool = Field(False, description="clients with radios also send their votes to the server")


# Settings that each machine chooses for itself: where and how it computes.
_LOCAL = {"run": ("workers", "threads", "device", "out"), "data": ("root", "download")}


def config_hash(settings: Settings) -> str:
    """Return a hash of the settings that determine a run; folders, devices and deadlines do not count."""
    tree = settings.model_dump(mode="json", exclude={"link"})
    for section, keys in _LOCAL.items():
        for key in keys:
            tree[section].pop(key)
    lines = sorted(f"{section}.{key}={value!r}" for section, part in tree.items() for key, value in part.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

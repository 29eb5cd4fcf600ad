# SPDX-License-Identifier: GPL-3.0-or-later
"""The section [link] of a config: deadlines, and how many clients make a round. It changes no result where all are
there in time."""

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
    min_clients: int = Field(1, ge=1, description="a round counts if so many answer; otherwise it is tried again")
    join_seconds: float = Field(60.0, gt=0, description="seconds that the first round waits for all N clients")
    round_seconds: float = Field(60.0, gt=0, description="seconds, a round's deadline: a later answer does not count")
    patience_seconds: float = Field(600.0, gt=0, description="seconds with fewer than min_clients until the run ends")
    heartbeat_seconds: float = Field(1.0, ge=0.01, le=60, description="seconds between two signs of life of each side")
    silent_seconds: float = Field(10.0, gt=0, description="seconds of silence until a client is not waited for")
    cut_off_after: int = Field(5, ge=1, description="bad messages until a sender is cut off")
    radio: str = Field("", description="the server's flowgraph, by which votes go: tcp://HOST:PORT, ipc://FOLDER")
    audit_votes: bool = Field(False, description="clients with radios also tell the server, to count wrong votes")


# Where and how it is computed: each machine's own business.
_LOCAL = {"run": ("workers", "threads", "device", "out"), "data": ("root", "download")}


def config_hash(settings: Settings) -> str:
    """The same for all who compute the same run, whatever their folders, devices and deadlines are."""
    tree = settings.model_dump(mode="json", exclude={"link"})
    for section, keys in _LOCAL.items():
        for key in keys:
            tree[section].pop(key)
    lines = sorted(f"{section}.{key}={value!r}" for section, part in tree.items() for key, value in part.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

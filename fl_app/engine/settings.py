# SPDX-License-Identifier: GPL-3.0-or-later
"""The section [engine] of a config: where the clients are computed. It changes no result."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from oac_blocks.bench.section import Section

ADDRESS = re.compile(r"auto|(ray://)?[^\s:/]+:\d+")


class EngineSection(Section):
    """The defaults compute all clients on this machine, without Ray."""

    SECTION: ClassVar[str] = "engine"

    name: Literal["local", "ray"] = Field(
        "local", description="where the clients are computed: by processes of this machine, or on a Ray cluster"
    )
    address: str = Field(
        "", description='of the Ray cluster: "auto", HOST:PORT or ray://HOST:PORT; "": a new Ray on this machine'
    )
    cpus_per_client: float = Field(
        1.0, gt=0, le=1024, description="CPUs that one worker takes on Ray; it trains one client at a time"
    )
    gpus_per_client: float = Field(0.0, ge=0, le=64, description="GPUs that one worker takes on Ray; 0.5: two on one")
    retries: int = Field(3, ge=0, description="times that a part of a round is computed again if its worker is lost")

    @field_validator("address")
    @classmethod
    def _has_a_form_of_ray(cls, address: str) -> str:
        if address and ADDRESS.fullmatch(address) is None:
            raise ValueError('write "auto", HOST:PORT, ray://HOST:PORT, or "" for a new Ray on this machine')
        return address

    @field_validator("gpus_per_client")
    @classmethod
    def _can_be_shared_out(cls, gpus: float) -> float:
        if gpus > 1 and gpus != int(gpus):
            raise ValueError("more than one GPU must be a whole number of them")
        return gpus

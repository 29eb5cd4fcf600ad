# SPDX-License-Identifier: GPL-3.0-or-later
"""Offer the selection policies under their public name; ``fl_app.core.selection`` has the code."""

from fl_app.core.pools.arrays import oldest_mask, top_mask
from fl_app.core.selection import (
    CANDIDATE_RATIO,
    MAGNITUDE_SHARE,
    POLICY_NAMES,
    AgeTopK,
    Dense,
    FairK,
    Policy,
    RandK,
    RoundRobin,
    TopK,
    TopRand,
    canonical_name,
    make_policy,
    update_age,
)

__all__ = [
    "CANDIDATE_RATIO",
    "MAGNITUDE_SHARE",
    "POLICY_NAMES",
    "AgeTopK",
    "Dense",
    "FairK",
    "Policy",
    "RandK",
    "RoundRobin",
    "TopK",
    "TopRand",
    "canonical_name",
    "make_policy",
    "oldest_mask",
    "top_mask",
    "update_age",
]

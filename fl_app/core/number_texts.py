# SPDX-License-Identifier: GPL-3.0-or-later
"""Format shares and durations for people."""

from __future__ import annotations


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 in percent: "81.5 %"; a dash for None."""
    return "-" if share is None else f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, "1:05", with hours in front if there are any."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

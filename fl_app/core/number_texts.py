# SPDX-License-Identifier: GPL-3.0-or-later
"""Format shares, figures of merit and durations for people."""

from __future__ import annotations

from collections.abc import Mapping


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 in percent: "81.5 %"; a dash for None."""
    return "-" if share is None else f"{100 * share:.1f} %"


def figure_texts(accuracy: float | None, further: Mapping[str, float | None] | None) -> dict[str, str]:
    """Return a task's figures of merit by name, as texts: the accuracy first, if the task has one."""
    texts = {} if accuracy is None else {"accuracy": percent(accuracy)}
    for name, value in (further or {}).items():
        texts[name.replace("_", " ")] = "-" if value is None else f"{value:.3f}"
    return texts


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, "1:05", with hours in front if there are any."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

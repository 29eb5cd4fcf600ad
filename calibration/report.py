# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw a calibration log: offsets, residuals, clocks, and errors beside their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibration.allan import allan_deviation
from calibration.log import CalibrationLog

Floats = npt.NDArray[np.float64]
_MOST_LINES = 10  # largest number of clients that are drawn individually


def summary(log: CalibrationLog) -> dict[str, Any]:
    """Return the figures of a log, with None for unknown values."""
    tracking = np.array(log.states) == "tracking"
    locked = tracking.all(axis=1)
    lock = int(np.argmax(locked)) + 1 if locked.any() else None
    late = _payload(log, "residual_samples", lock)
    offset = _payload(log, "offset_samples", lock)
    return {
        "clients": log.clients,
        "rounds": len(log.rounds),
        "payload_rounds": log.kinds.count("payload"),
        "rounds_to_lock": lock,
        "all_tracking": bool(tracking[-1].all()),
        "residual_rms_samples": _rms(late),
        "residual_max_samples": _largest(late),
        "offset_rms_samples": _rms(offset),
        "drift_ppm": [None if np.isnan(v) else round(v, 4) for v in log.columns["drift_ppm"][-1].tolist()],
        "note": log.note,
    }


def draw(log: CalibrationLog, path: Path) -> None:
    """Write the picture; the file is either complete or not there."""
    drawn = figure(log)
    part = path.with_name(path.name + ".part")
    try:
        drawn.savefig(part, dpi=110, format=path.suffix.lstrip(".") or "png")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def figure(log: CalibrationLog) -> Figure:
    """Return a figure with four axes: offsets, their histogram, the clocks, and errors beside their bounds."""
    with mpl.rc_context({"axes.grid": True, "grid.alpha": 0.3, "font.size": 9}):
        drawn = Figure(figsize=(11, 7.5), layout="constrained")
        (offsets, histogram), (clocks, bounds) = drawn.subplots(2, 2)
        _draw_offsets(offsets, log)
        _draw_histogram(histogram, log)
        _draw_clocks(clocks, log)
        _draw_bounds(bounds, log)
        return drawn


def _draw_offsets(axes: Axes, log: CalibrationLog) -> None:
    offsets = log.columns["offset_samples"]
    heard = [client for client in _drawn(log) if np.isfinite(offsets[:, client]).any()]
    for client in heard:
        axes.plot(log.rounds, offsets[:, client], ".", markersize=3, color=_colour(client), label=f"client {client}")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(xlabel="round", ylabel="measured offset (samples)", title=_title("Offset against round", log))
    if heard:
        axes.legend(fontsize=7, ncols=2, loc="upper right")


def _draw_histogram(axes: Axes, log: CalibrationLog) -> None:
    lock = summary(log)["rounds_to_lock"]
    values, what = _payload(log, "residual_samples", lock), "true residual"
    if not values.size:
        values, what = _payload(log, "offset_samples", lock), "measured offset"
    if values.size:
        reach = max(float(np.quantile(np.abs(values), 0.999)), 1e-6)
        axes.hist(np.clip(values, -reach, reach), bins=61, color="tab:blue", alpha=0.8)
        axes.set_title(f"{values.size:,} answers after the lock: RMS {_rms(values):.3g} samples")
    else:
        axes.set_title("No payload after a lock")
    axes.set(xlabel=f"{what} (samples)", ylabel="answers")


def _draw_clocks(axes: Axes, log: CalibrationLog) -> None:
    """Draw the Allan deviation of the clocks, from the clients' counts of the triggers against the server's."""
    intervals = np.diff(log.trigger_sample)
    known = intervals[np.isfinite(intervals) & (intervals > 0)]
    axes.set(xlabel="averaging time (s)", ylabel="Allan deviation", title="Clocks, as the triggers show them")
    if not known.size:
        return
    interval = float(np.median(known)) / log.sample_rate_hz
    for client in _drawn(log):
        lead = (log.columns["client_sample"][:, client] - log.trigger_sample) / log.sample_rate_hz
        times, deviations = allan_deviation(_without_jumps(lead), interval)
        if times.size:
            axes.loglog(times, deviations, "o-", markersize=3, color=_colour(client), label=f"client {client}")


def _draw_bounds(axes: Axes, log: CalibrationLog) -> None:
    """Draw the RMS values of the residuals and errors beside the bound of the measurement.

    Residuals are true values, which only a simulation knows. For radios the measured offsets are drawn instead.
    """
    lock = summary(log)["rounds_to_lock"]
    clients = np.arange(log.clients)
    after = _after(log, lock)
    residual = log.columns["residual_samples"][after]
    offset = log.columns["offset_samples"][after]
    simulated = bool(np.isfinite(residual).any())
    sigma = log.columns["sigma_samples"][after]
    known = (
        [(residual, "true residual, RMS", "o"), (offset - residual, "error of the measured offset, RMS", "s")]
        if simulated
        else [(offset, "measured offset, RMS", "o")]
    )
    for values, label, marker in (
        *known,
        (sigma, "bound of the measurement", "_"),
        (log.columns["doubt_samples"][after], "the tracker's own standard deviation", "x"),
    ):
        rms = [_rms(values[:, client][np.isfinite(values[:, client])]) for client in clients]
        if any(value is not None for value in rms):
            axes.semilogy(clients, [np.nan if v is None else v for v in rms], marker, label=label)
    axes.set(xlabel="client", ylabel="samples", title="Errors and bounds, payload after the lock")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)


def _without_jumps(lead: Floats) -> Floats:
    """Return the lead with jumps of a client's count (broken streams) removed, because the clock did not cause them."""
    moved = lead.copy()
    known = np.flatnonzero(np.isfinite(moved))
    if len(known) < 3:
        return moved
    steps = np.diff(moved[known])
    usual = np.median(steps)
    spread = max(float(np.median(np.abs(steps - usual))), 1e-12)
    for place in np.flatnonzero(np.abs(steps - usual * np.diff(known)) > 50 * spread + 1e-7):
        moved[known[place + 1] :] -= steps[place] - usual * (known[place + 1] - known[place])
    return moved


def _after(log: CalibrationLog, lock: int | None) -> npt.NDArray[np.bool_]:
    """Return the payload rounds after the lock, without the first one, in which the loop still learns."""
    payload = np.array(log.kinds) == "payload"
    if lock is None:
        return np.zeros(len(payload), bool)
    return payload & (np.arange(len(payload)) > lock)


def _payload(log: CalibrationLog, name: str, lock: int | None) -> Floats:
    values = log.columns[name][_after(log, lock)]
    return values[np.isfinite(values)]


def _rms(values: Floats) -> float | None:
    return float(np.sqrt(np.mean(values**2))) if values.size else None


def _largest(values: Floats) -> float | None:
    return float(np.max(np.abs(values))) if values.size else None


def _drawn(log: CalibrationLog) -> range:
    return range(min(log.clients, _MOST_LINES))


def _colour(client: int) -> str:
    return f"C{client % 10}"


def _title(text: str, log: CalibrationLog) -> str:
    return text if log.clients <= _MOST_LINES else f"{text} (the first {_MOST_LINES} of {log.clients} clients)"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Summarise a round for displays: ages, layers, received values, clients. The size does not grow with the model."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_app.air.base import Uplink
from fl_app.air.observed import Observation
from fl_app.core.client import ClientReport

MOST_BINS = 60  # bars of a histogram
MOST_LAYERS = 64  # layers that have a line of their own; the rest share the last line
MOST_CLIENTS = 64  # clients that are described, those with the lowest numbers

Json = dict[str, Any]


def number(value: float | np.floating[Any] | None, digits: int = 5) -> float | None:
    """Return a number with a few digits, for a small file; None if it is not finite, which JSON lacks."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{float(value):.{digits}g}")


def numbers(values: npt.ArrayLike) -> list[float | None]:
    """Return numbers with a few digits; None in place of NaN and infinities."""
    return [number(value) for value in np.asarray(values, np.float64)]


def age_histogram(age: npt.NDArray[np.int32]) -> Json:
    """Count the entries of each age: ``edges`` (n + 1) in rounds and ``counts`` (n), n at most `MOST_BINS`."""
    counts = np.bincount(age)
    width = -(-len(counts) // MOST_BINS)
    counts = np.add.reduceat(counts, np.arange(0, len(counts), width))
    return {"edges": [width * i for i in range(len(counts) + 1)], "counts": counts.tolist()}


def value_histogram(values: npt.NDArray[np.float32]) -> Json:
    """Count received values between their 0.5 and 99.5 % points; those outside count in the first and last bar."""
    low, high = np.percentile(values, (0.5, 99.5)).tolist()
    if not low < high:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(values, low, high), MOST_BINS, (low, high))
    return {"edges": numbers(edges), "counts": counts.tolist()}


def layer_shares(
    layers: Sequence[tuple[str, int]], age: npt.NDArray[np.int32], times_sent: npt.NDArray[np.int32]
) -> list[Json]:
    """Return for each layer the share of its entries sent in this round, the share sent since round 0, the mean age.

    An entry that was received in this round has the age 0, and no other entry has.
    """
    sizes = [size for _, size in layers[: MOST_LAYERS - 1]]
    names = [name for name, _ in layers[: MOST_LAYERS - 1]]
    if len(layers) > len(sizes):
        rest = layers[len(sizes) :]
        names.append(rest[0][0] if len(rest) == 1 else f"{len(rest)} more layers")
        sizes.append(sum(size for _, size in rest))
    starts = np.cumsum([0, *sizes])
    return [
        {
            "name": name,
            "entries": size,
            "sent": number(np.count_nonzero(age[start : start + size] == 0) / size),
            "ever": number(np.count_nonzero(times_sent[start : start + size] > 1) / size),
            "mean_aou": number(age[start : start + size].mean()),
        }
        for name, size, start in zip(names, sizes, starts, strict=False)
    ]


def client_lines(
    n_clients: int,
    participants: Collection[int],
    reports: Sequence[ClientReport],
    uplink: Uplink | None,
    seen: Observation | None,
) -> list[Json]:
    """Describe each client in the last round: what became of it, its loss and time, and its radio."""
    heard = set() if uplink is None else set(uplink.heard.tolist())
    by_client = {report.client: report for report in reports}
    places = {} if seen is None else {client: place for place, client in enumerate(seen.clients)}
    return [
        {
            "client": client,
            "state": _state(client, participants, by_client.get(client), heard),
            **_of_report(by_client.get(client)),
            **_of_radio(seen, places.get(client)),
        }
        for client in range(min(n_clients, MOST_CLIENTS))
    ]


def _state(client: int, participants: Collection[int], report: ClientReport | None, heard: set[int]) -> str:
    if client in heard:
        return "heard"
    if report is None:
        return "absent" if client in participants else "not drawn"
    return "not heard" if report.transmits else "dropped"


def _of_report(report: ClientReport | None) -> Json:
    if report is None:
        return {"loss": None, "seconds": None}
    return {"loss": number(report.loss), "seconds": number(report.seconds)}


def _of_radio(seen: Observation | None, place: int | None) -> Json:
    values = ("offset_samples", "power_db", "cfo_hz")
    if seen is None or place is None:
        return {"radio": "", **dict.fromkeys(values)}
    known = {name: getattr(seen, name) for name in values}
    return {
        "radio": seen.states[place] if seen.states else "",
        **{name: number(array[place]) if len(array) else None for name, array in known.items()},
    }


def scene(uplink: Uplink | None, seen: Observation | None) -> Json:
    """Describe what the server received: a histogram of the values, the spectrum, some energies of tone pairs."""
    shown: Json = {"received": None, "spectrum": None, "energies": None}
    if uplink is not None and np.isfinite(uplink.received).all():
        shown["received"] = value_histogram(uplink.received)
    if seen is not None and seen.spectrum_db.size:
        shown["spectrum"] = {"sample_rate_hz": seen.sample_rate_hz, "db": [round(x, 1) for x in seen.spectrum_db]}
    if seen is not None and seen.energies.size:
        shown["energies"] = {"plus": numbers(seen.energies[0]), "minus": numbers(seen.energies[1])}
    return shown

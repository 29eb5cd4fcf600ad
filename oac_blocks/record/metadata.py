# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a received round in SigMF's words: what it is, what a replay needs, and where its parts are.

Keys of our own have the namespace ``oac``; docs/how-to/record.md lists them. Samples count from the first one of the
recording, but for ``oac:trigger_sample`` and ``core:global_index``, which count from the start of the server's stream.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from oac_blocks.dsp.receive.capture import Capture
from oac_blocks.dsp.receive.server_stream import HeardRound
from oac_blocks.dsp.receive.vote_units import energies_per_voter
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.trigger import ROLL_OFF, SAMPLES_PER_CHIP, trigger

FORMAT = 1  # version of our own keys
NAMESPACE = "oac"
_LAYOUT = ("clients", "repeats", "groups", "answer_samples", "slot_samples", "clients_per_slot")
_TRIGGER_BAND = (1 + ROLL_OFF) / (2 * SAMPLES_PER_CHIP)  # half width of its spectrum, per sample rate

Annotation = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """Hold what the samples do not tell: the radio, its carrier, and the seed of a simulation."""

    hw: str
    frequency_hz: float
    description: str
    seed: int | None = None


def digest(values: npt.NDArray[np.float32]) -> str:
    """Return the SHA-256 of these numbers as little-endian float32."""
    return hashlib.sha256(np.ascontiguousarray(values, "<f4").tobytes()).hexdigest()


def soft_votes(heard: HeardRound, voting: Collection[int] | None) -> npt.NDArray[np.float32]:
    """Return the soft votes as the receiver publishes them: in units of a voter's energy."""
    energies = energies_per_voter(heard, voting)
    return np.asarray(energies[0] - energies[1], np.float32)


def metadata(
    heard: HeardRound, layout: RoundLayout, facts: Facts, voting: Collection[int] | None = None
) -> dict[str, Any]:
    """Return the SigMF metadata of a round that has a capture, without the hash of the samples.

    Parameters
    ----------
    heard : HeardRound
        The round, with its capture.
    layout : RoundLayout
        What clients and server shared in it.
    facts : Facts
        What else there is to say.
    voting : collection of int, optional
        Clients that had votes to send; None if that is not known.

    Raises
    ------
    ValueError
        If the round has no capture.
    """
    capture = _capture(heard)
    own: dict[str, Any] = {
        "format": FORMAT,
        "round": heard.round,
        "kind": heard.kind,
        "layout": layout_values(layout),
        "receiver": capture.settings,
        "search": dataclasses.asdict(capture.mark.tracking),
        "trigger_sample": heard.trigger_sample,
        "trigger_snr_db": heard.trigger_snr_db,
        "voting": None if voting is None else sorted(voting),
        "seed": facts.seed,
    }
    if heard.energies is not None:
        own |= {
            "k": heard.energies.shape[1],
            "snr_db": finite(heard.mean_snr_db),
            "energies_sha256": digest(heard.energies),
            "soft_votes_sha256": digest(soft_votes(heard, voting)),
        }
    released = version("gr-oac")
    return {
        "global": {
            "core:datatype": "cf32_le",
            "core:sample_rate": layout.num.sample_rate_hz,
            "core:hw": facts.hw,
            "core:description": facts.description,
            "core:recorder": f"gr-oac {released}",
            "core:extensions": [{"name": NAMESPACE, "version": f"{FORMAT}.0.0", "optional": True}],
            **{own_key(name): value for name, value in own.items()},
        },
        "captures": [
            {"core:sample_start": 0, "core:frequency": facts.frequency_hz, "core:global_index": capture.mark.sample}
        ],
        "annotations": annotations_of(heard, layout, facts.frequency_hz),
    }


def layout_values(layout: RoundLayout) -> dict[str, Any]:
    """Return the parameters of a layout by their names."""
    own = {name: getattr(layout, name) for name in _LAYOUT}
    return {**layout.num.to_dict(), **own, "scheme": layout.scheme.name}


def annotations_of(heard: HeardRound, layout: RoundLayout, frequency_hz: float = 0.0) -> list[Annotation]:
    """Return where trigger, sync symbols, groups or slots, and the clients' answers are, in order of time."""
    capture = _capture(heard)
    rate, spacing = layout.num.sample_rate_hz, layout.num.subcarrier_spacing_hz
    answers = layout.num.subcarrier_frequencies() * rate
    bands = {
        "trigger": (-_TRIGGER_BAND * rate, _TRIGGER_BAND * rate),
        "answer": (answers[0] - spacing / 2, answers[-1] + spacing / 2),
    }
    length, found = len(capture.samples), []
    for band, begin, count, about in _parts(heard, layout):
        first = max(0, begin - capture.mark.sample)
        lower, upper = bands[band]
        found.append(
            {
                "core:sample_start": first,
                "core:sample_count": max(0, min(begin - capture.mark.sample + count, length) - first),
                "core:freq_lower_edge": frequency_hz + float(lower),
                "core:freq_upper_edge": frequency_hz + float(upper),
                **about,
            }
        )
    return sorted(found, key=lambda one: (one["core:sample_start"], -one["core:sample_count"]))


def _parts(heard: HeardRound, layout: RoundLayout) -> Iterator[tuple[str, int, int, Annotation]]:
    """Give band, first sample in the stream, number of samples and words for each part of the round."""
    comment = f"SNR {heard.trigger_snr_db:.1f} dB"
    yield "trigger", round(heard.trigger_sample), len(trigger()), {"core:label": "trigger", "core:comment": comment}
    symbol, answer_at = layout.num.symbol_samples, layout.answer_at(heard.trigger_sample)
    burst = symbol
    if heard.energies is not None:
        frame = layout.frame(heard.energies.shape[1])
        burst = frame.samples
        starts = zip(frame.sync_starts_samples(), frame.group_starts_samples(), frame.group_symbols(), strict=True)
        for group, (sync, start, symbols) in enumerate(starts):
            # Without a label, which would be drawn over that of the group.
            yield "answer", answer_at + int(sync), symbol, {"core:comment": f"sync symbol of group {group}"}
            yield "answer", answer_at + int(start), int(symbols) * symbol, {"core:label": f"group {group}"}
    else:
        for slot in range(layout.slots):
            yield "answer", answer_at + slot * layout.slot_samples, layout.slot_samples, {"core:label": f"slot {slot}"}
    for client in np.flatnonzero(np.isfinite(heard.offset_samples)).tolist():
        start = 0 if heard.energies is not None else layout.sequence_start_samples(client)
        arrival = heard.trigger_sample + layout.answer_samples + start + heard.offset_samples[client]
        yield "answer", round(arrival), burst, _client(heard, client)


def _client(heard: HeardRound, client: int) -> Annotation:
    names = ("offset_samples", "sigma_samples", "power_db", "snr_db", "cfo_rad")
    values = {name: finite(float(getattr(heard, name)[client])) for name in names}
    comment = f"offset {values['offset_samples']:+.3f} samples, power {values['power_db']:.1f} dB"
    if values["snr_db"] is not None:
        comment += f", SNR {values['snr_db']:.1f} dB"
    own = {own_key(name): value for name, value in values.items()}
    return {"core:label": f"client {client}", "core:comment": comment, own_key("client"): client, **own}


def _capture(heard: HeardRound) -> Capture:
    if heard.capture is None:
        raise ValueError(f"round {heard.round} must have a capture; ask the receiver to keep them")
    return heard.capture


def own_key(name: str) -> str:
    """Return a name of ours as it stands in a recording."""
    return f"{NAMESPACE}:{name}"


def finite(value: float) -> float | None:
    """Return the number as JSON can hold it: None stands for one that is not finite."""
    return value if math.isfinite(value) else None

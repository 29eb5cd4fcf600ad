# SPDX-License-Identifier: GPL-3.0-or-later
"""The waveforms that radios find each other by, and how they are found: one door to the modules behind it.

- the *trigger* (``trigger``): the server's call, a binary Golay sequence four times over; it says when, and at which
  frequency;
- a *client's sequence* (``client_sequence``): a Zadoff-Chu sequence of its own root, for a slot of its own;
- the *shared slot* (``shared_slot``): one root, each client at its own cyclic shift, all at once: a sync symbol.

``detection`` says whether a waveform is there, ``trigger_search`` the same of a stream that comes in pieces,
``arrival`` exactly when, at which frequency and how strong. A client's sequence is a chirp: look for it at the
frequency that the trigger gave, for off by half a subcarrier (0.012 rad/sample) its correlation peaks elsewhere.
"""

from oac_blocks.dsp.receive.arrival import Arrival, estimate_arrival
from oac_blocks.dsp.receive.detection import Detection, find_triggers, normalised_correlation, trigger_threshold
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.waveform.client_sequence import client_sequence
from oac_blocks.dsp.waveform.shared_slot import (
    SharedArrivals,
    cyclic_shifts_samples,
    estimate_shared,
    max_clients,
    separate_clients,
    shared_slot,
)
from oac_blocks.dsp.waveform.trigger import SEGMENT_SAMPLES, SEGMENTS, trigger

__all__ = [
    "SEGMENTS",
    "SEGMENT_SAMPLES",
    "Arrival",
    "Detection",
    "SharedArrivals",
    "TriggerSearch",
    "client_sequence",
    "cyclic_shifts_samples",
    "estimate_arrival",
    "estimate_shared",
    "find_triggers",
    "max_clients",
    "normalised_correlation",
    "separate_clients",
    "shared_slot",
    "trigger",
    "trigger_threshold",
]

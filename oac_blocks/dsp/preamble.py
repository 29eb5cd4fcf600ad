# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather the waveforms by which radios find each other and the functions that find these waveforms.

- The *trigger* (``trigger``) is the server's call, a binary Golay sequence sent four times. It gives the clients a
  common instant and the carrier frequency offset.
- A *client's sequence* (``client_sequence``) is a Zadoff-Chu sequence with a root of its own, for a slot of its own.
- The *shared slot* (``shared_slot``) is one symbol in which all clients send the same root at once, each with its own
  cyclic shift. Frames use it as their sync symbol.

``detection`` decides whether a waveform is present, ``trigger_search`` does the same in a stream that arrives in
pieces, and ``arrival`` estimates the arrival time, frequency and amplitude. A client's sequence is a chirp: search for
it at the frequency that the trigger gave. With a frequency error of half a subcarrier (0.012 rad/sample) its
correlation peak is at a wrong place.
"""

from oac_blocks.dsp.receive.arrival import Arrival, estimate_arrival
from oac_blocks.dsp.receive.detection import Detection, find_triggers, normalised_correlation, trigger_threshold
from oac_blocks.dsp.receive.slot_estimates import SharedArrivals, estimate_shared, separate_clients
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.waveform.client_sequence import client_sequence
from oac_blocks.dsp.waveform.shared_slot import cyclic_shifts_samples, max_clients, shared_slot
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

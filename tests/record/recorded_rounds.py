# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds for the recorder, from the server's stream on records with known offsets."""

import numpy as np

from oac_blocks.dsp.receive.server_stream import ServerStream
from oac_blocks.record.metadata import Facts
from tests.dsp.receive.server_rounds import K, acquire_round, only, payload_round, small
from tests.support.signals import noise

FACTS = Facts("a test", 2.4e9, "A round of a test", seed=5)
LAYOUT = small(3, answer_samples=20_000)
OFFSETS = np.array([-2.3, 0.4, 3.1])
ACQUIRE_OFFSETS = np.array([-211.4, 95.2, 300.3])


def heard_rounds(kinds, layout=LAYOUT, votes=K, seed=1):
    """The rounds as a receiver with captures hears them, one after the other."""
    rng = np.random.default_rng(seed)
    stream = ServerStream(layout, votes, span_rows=2)
    stream.keep_captures()
    for number, kind in enumerate(kinds):
        stream.expect(number, kind)
        if kind == "payload":
            x = payload_round(layout, rng, OFFSETS, [0, -3, -6], k=votes)
        else:
            x = acquire_round(layout, rng, ACQUIRE_OFFSETS, [0, -3, -6])
        quiet = noise(10_000, 0.01, rng).astype(np.complex64)
        yield only(stream.push(np.concatenate((quiet, x, quiet))))

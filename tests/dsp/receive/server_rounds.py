# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds as the server's stream gets them, and how two are compared."""

import numpy as np

from oac_blocks.dsp import Numerology
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from tests.dsp.receive.air_records import add_payload, add_sequences, add_trigger, amplitudes
from tests.support.signals import noise

NUM = Numerology()
EARLY = NUM.cp_samples // 3
VECTORS = ("offset_samples", "sigma_samples", "power_db", "cfo_rad", "snr_db", "place_samples")
K = 960
TRIGGER_AT = 700.3


def small(clients=2, **options):
    """Short rounds: answers come while the search still looks at the trigger."""
    return RoundLayout(NUM, clients, **({"answer_samples": 1500, "slot_samples": 1280} | options))


def round_samples(layout, votes=K):
    """A round, and as much again as the search needs to be sure of the next one's trigger."""
    return layout.answer_samples + max(layout.frame(votes).samples, layout.acquisition_samples) + 6000


def random_votes(layout, rng, k=K):
    return rng.choice(np.array([-1, 0, 1], np.int8), (layout.clients, k))


def payload_round(layout, rng, offsets=None, power_db=None, cfos=None, noise_power=0.01, at=TRIGGER_AT, k=K):
    n = layout.clients
    offsets, power_db, cfos = (np.zeros(n) if v is None else np.asarray(v) for v in (offsets, power_db, cfos))
    x = noise(round_samples(layout, k), noise_power, rng)
    add_trigger(x, at)
    votes = random_votes(layout, rng, k)
    add_payload(x, layout, at + layout.answer_samples, votes, offsets, amplitudes(power_db, rng), cfos, rng)
    return x.astype(np.complex64)


def acquire_round(layout, rng, offsets, power_db, at=TRIGGER_AT):
    x = noise(round_samples(layout), 0.01, rng)
    add_trigger(x, at)
    add_sequences(x, layout, at + layout.answer_samples, offsets, amplitudes(power_db, rng))
    return x.astype(np.complex64)


def flushed(stream):
    """What the search still holds back."""
    return stream.push(np.zeros(stream.search.latency_samples, np.complex64))


def only(heard):
    assert len(heard) == 1
    return heard[0]


def assert_same(heard, expected):
    assert len(heard) == len(expected)
    for one, other in zip(heard, expected, strict=True):
        about = [(h.round, h.kind, h.trigger_sample, h.trigger_snr_db) for h in (one, other)]
        assert about[0] == about[1]
        for name in VECTORS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in ("soft_votes", "energies"):
            a, b = getattr(one, name), getattr(other, name)
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a, b)

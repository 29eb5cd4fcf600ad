# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how much a round's share of wrong votes scatters about its mean, from the channel model alone.

All votes of a round share its fading, so the scatter between rounds is larger than that of independent votes. A test
that takes the scatter from its own measurements has a bound that loosens as the fault grows; this bound does not.
"""

from functools import cache

import numpy as np

# Extended Vehicular A model of 3GPP TS 36.101, table B.2.1-3: delays in ns, relative powers in dB.
EVA_NS = np.array([0, 30, 150, 310, 370, 710, 1090, 1730, 2510])
EVA_DB = np.array([0.0, -1.5, -1.4, -3.6, -0.6, -9.1, -7.0, -12.0, -16.9])
SAMPLE_RATE_HZ, FFT_SIZE, PAIRS, DC_NULLS = 20e6, 256, 96, 8
ROUNDS = 400  # rounds that are drawn; the standard deviation is then known to 4 %


@cache
def vote_rate_std(clients, votes, snr_db, seed=1):
    """Return the standard deviation, over rounds, of the share of wrong votes among those with a majority.

    Each round draws Rayleigh fading of the EVA model anew and keeps it for the round. All clients cast fair votes of
    +1 and -1; the two adjacent subcarriers of a vote see the same channel.
    """
    rng = np.random.default_rng(seed)
    powers = 10 ** (EVA_DB / 10)
    amplitudes = np.sqrt(powers / powers.sum())
    subcarrier = 2 * (np.arange(PAIRS) - PAIRS // 2) + np.where(np.arange(PAIRS) < PAIRS // 2, -1, 1) * DC_NULLS // 2
    turns = np.exp(-2j * np.pi * np.outer(EVA_NS * 1e-9, subcarrier * SAMPLE_RATE_HZ / FFT_SIZE))
    place = np.arange(votes) % PAIRS

    def gaussian(*shape):
        return np.sqrt(0.5) * rng.standard_normal((*shape, 2)).view(np.complex128)[..., 0]

    rates = np.empty(ROUNDS)
    for i in range(ROUNDS):
        channel = (amplitudes * gaussian(clients, len(powers)) @ turns)[:, place]
        sent = rng.choice([-1, 1], (clients, votes))
        arrived = channel * 1j ** rng.integers(0, 4, (clients, votes))
        noise = np.sqrt(10 ** (-snr_db / 10)) * gaussian(2, votes)
        plus, minus = (np.abs((arrived * (sent == sign)).sum(axis=0) + noise[i]) for i, sign in enumerate((1, -1)))
        majority = np.sign(sent.sum(axis=0))
        rates[i] = np.mean((plus > minus) != (majority > 0), where=majority != 0)
    return rates.std(ddof=1)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries as energies through the clients' streams, a channel and the server's stream: the closed forms hold."""

import numpy as np
import pytest

from oac_blocks.dsp import Numerology
from oac_blocks.dsp.bounds import energy_variance
from oac_blocks.dsp.preamble import trigger
from oac_blocks.dsp.receive.client_stream import AnswerOrder, ClientStream
from oac_blocks.dsp.receive.server_stream import ServerStream
from oac_blocks.dsp.receive.trigger_search import TriggerSearch
from oac_blocks.dsp.receive.vote_units import energies_per_voter
from oac_blocks.dsp.waveform.round_layout import RoundLayout
from oac_blocks.dsp.waveform.schemes import scheme_named
from oac_blocks.dsp.waveform.schemes.energies import PEAK_ENERGY
from tests.support.signals import noise

NUM = Numerology()
ENERGY = scheme_named("energy")
TURNAROUND = 10_000
TRIGGER_AT = 700


class Link:
    """N clients and a server; the server hears the sum of all clients, each with its own gain, and its noise."""

    def __init__(self, clients, k, repeats=1):
        self.layout = RoundLayout(NUM, clients, repeats, 2, TURNAROUND, 1280, scheme=ENERGY)
        self.clients = [
            ClientStream(n, self.layout, TriggerSearch(span_rows=4), turnaround_samples=TURNAROUND, votes=k)
            for n in range(clients)
        ]
        self.server = ServerStream(self.layout, k)
        self.samples = TRIGGER_AT + TURNAROUND + self.layout.frame(k).samples + 6000
        self.round = 0

    def play(self, payloads, gains, noise_power, rng):
        """Return the round that the server hears."""
        sent = np.zeros(self.samples, np.complex64)
        sent[TRIGGER_AT : TRIGGER_AT + len(trigger())] = trigger()
        total = sent + noise(self.samples, noise_power, rng)
        for client, payload, gain in zip(self.clients, payloads, gains, strict=True):
            client.order(AnswerOrder(self.round, client.epoch, "payload"))
            client.payload(self.round, payload)
            answer, [status] = client.push(sent)
            assert status.sent == "payload"
            total = total + gain * answer
        self.round += 1
        [heard] = self.server.push(total.astype(np.complex64))
        return heard


# Signed energies of the clients (0 abstains), powers of their channels, SNR in dB, copies.
POINTS = [
    ([1.0], [1.0], 20, 1),
    ([0.5, -2.0, 0.0], [1.0, 1.0, 1.0], 10, 2),
    ([3.0, -1.0, -1.0], [0.5, 1.0, 2.0], 20, 1),
    ([0.1] * 10, [1.0] * 10, 10, 4),
]


@pytest.mark.parametrize(("values", "powers", "snr_db", "repeats"), POINTS)
def test_mean_and_variance_over_known_channels(values, powers, snr_db, repeats):
    """Gains of known magnitude have no variance of their own: all of their power is steady."""
    values, powers, noise_power, k = np.array(values), np.array(powers), 10 ** (-snr_db / 10), 9600
    rng = np.random.default_rng(len(values))
    gains = np.sqrt(powers) * np.exp(2j * np.pi * rng.random(len(values)))
    payloads = np.tile(values.astype(np.float32)[:, None], k)
    heard = Link(len(values), k, repeats).play(payloads, gains, noise_power, rng)
    arriving = values * powers
    plus, minus = np.maximum(arriving, 0).sum(), np.maximum(-arriving, 0).sum()
    variance = energy_variance(plus, minus, noise_power, repeats, steady_squares=float(np.sum(arriving**2)))
    off = heard.soft_votes.astype(np.float64) / repeats - arriving.sum()
    assert abs(off.mean()) < 3 * np.sqrt(variance / k)
    standard_error = np.std(off**2) / np.sqrt(k)
    assert standard_error < 0.05 * variance
    assert abs(np.mean(off**2) - variance) < 3 * standard_error
    # In units of a client's energy nothing is left of the powers' mean.
    energies = energies_per_voter(heard)
    mean = float(np.mean(energies[0] - energies[1])) / repeats
    assert mean == pytest.approx(arriving.sum() / powers.mean(), abs=4 * np.sqrt(variance / k) + 0.05 * abs(mean))


@pytest.mark.parametrize(("values", "repeats"), [([1.0, -0.5], 1), ([2.0, 1.0, 0.0], 3)])
def test_mean_and_variance_in_rayleigh_fading(values, repeats):
    """All entries and copies of a round share the clients' gains, so rounds are the independent trials."""
    values, noise_power, k, rounds = np.array(values), 0.1, 480, 400
    rng, link = np.random.default_rng(repeats), Link(len(values), k, repeats)
    payloads = np.tile(values.astype(np.float32)[:, None], k)
    off = np.empty((rounds, k))
    for t in range(rounds):
        gains = rng.standard_normal((len(values), 2)) @ [np.sqrt(0.5), 1j * np.sqrt(0.5)]
        off[t] = link.play(payloads, gains, noise_power, rng).soft_votes / repeats - values.sum()
    squares = float(np.sum(values**2))
    plus, minus = np.maximum(values, 0).sum(), np.maximum(-values, 0).sum()
    variance = energy_variance(plus, minus, noise_power, repeats, shared_squares=squares)
    # The mean over a round keeps what all entries share: the variance of the gains' powers.
    assert abs(off.mean()) < 3 * np.sqrt((squares + variance / k) / rounds)
    by_round = np.mean(off**2, axis=1)
    standard_error = by_round.std() / np.sqrt(rounds)
    assert standard_error < 0.15 * variance
    assert abs(by_round.mean() - variance) < 3 * standard_error


def test_a_client_sends_no_more_than_the_peak_and_abstains_with_zeros():
    k, rng = 96, np.random.default_rng(1)
    link = Link(1, k)
    payload = np.zeros((1, k), np.float32)
    payload[0, :3] = 1000, -1000, 2
    heard = link.play(payload, [1.0], 0.0, rng)
    assert heard.soft_votes[:3] == pytest.approx([PEAK_ENERGY, -PEAK_ENERGY, 2], rel=1e-3)
    assert np.abs(heard.soft_votes[3:]).max() < 1e-3


def test_the_layout_says_what_a_payload_is():
    layout = RoundLayout(NUM, 1, scheme=ENERGY)
    stream = ClientStream(0, layout, TriggerSearch(span_rows=4), turnaround_samples=TURNAROUND, votes=4)
    for wrong in (np.ones(4, np.int8), np.ones((1, 4), np.float32), np.float32([1, np.nan])):
        with pytest.raises(ValueError, match=r"(votes|payload) must be"):
            stream.payload(0, wrong)
    with pytest.raises(ValueError, match="scheme must be one that compares energies, got 'analog'"):
        RoundLayout(NUM, 1, scheme=scheme_named("analog"))
    with pytest.raises(ValueError, match="scheme must compare energies, got 'analog'"):
        scheme_named("analog").energies(np.zeros((1, 192), np.complex64), 1, NUM)

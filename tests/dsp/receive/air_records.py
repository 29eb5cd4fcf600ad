# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server receives, made the plain way: waveforms moved by fractions of a sample in the frequency domain."""

import numpy as np

from oac_blocks.dsp import frame, fsk_mv, ofdm
from oac_blocks.dsp.preamble import client_sequence, shared_slot, trigger

_MARGIN = 128


def add(x, waveform, at, amplitude=1.0, cfo_rad=0.0):
    """A waveform whose first sample arrives at ``at``; its frequency turns about there."""
    first = int(np.floor(at))
    padded = np.pad(waveform.astype(np.complex128), _MARGIN)
    ramp = np.exp(-2j * np.pi * np.fft.fftfreq(len(padded)) * (at - first))
    moved = amplitude * np.fft.ifft(np.fft.fft(padded) * ramp)
    moved *= np.exp(1j * cfo_rad * (np.arange(len(padded)) - _MARGIN - (at - first)))
    begin, stop = max(first - _MARGIN, 0), min(first - _MARGIN + len(moved), len(x))
    x[begin:stop] += moved[begin - first + _MARGIN : stop - first + _MARGIN]


def amplitudes(power_db, rng):
    """Of clients with these powers and random phases; none for -inf dB."""
    power_db = np.asarray(power_db, np.float64)
    return 10 ** (power_db / 20) * np.exp(2j * np.pi * rng.random(power_db.shape))


def add_sequences(x, layout, answer_at, offsets, gains, cfo_rad=0.0, echoes=((0, 1.0),)):
    """The clients' own sequences, each in its slot; echoes are (samples, amplitude)."""
    for client in range(layout.clients):
        at = answer_at + layout.sequence_start_samples(client) + offsets[client]
        for delay, amplitude in echoes:
            add(x, client_sequence(client, layout.num), at + delay, gains[client] * amplitude, cfo_rad)


def bursts(layout, votes, rng):
    """Frames (N, samples) of votes (N, k)."""
    payload = ofdm.modulate(fsk_mv.encode(votes, layout.num, rng, layout.repeats), layout.num)
    return frame.assemble(payload, shared_slot(layout.clients, layout.num), layout.frame(votes.shape[-1]))


def add_payload(x, layout, answer_at, votes, offsets, gains, cfos_rad, rng):
    """All clients' frames."""
    for i, burst in enumerate(bursts(layout, votes, rng)):
        add(x, burst, answer_at + offsets[i], gains[i], cfos_rad[i])


def add_trigger(x, at, amplitude=1.0):
    add(x, trigger(), at, amplitude)

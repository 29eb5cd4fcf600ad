# SPDX-License-Identifier: GPL-3.0-or-later
"""Subcarriers in, soft votes out: the same as dsp's, and as often wrong as the closed forms say."""

import numpy as np
import pmt
import pytest
from gnuradio import blocks, gr

from oac_blocks.blocks.fsk_mv_detector import fsk_mv_detector
from oac_blocks.dsp import Numerology, bounds, fsk_mv
from oac_blocks.dsp.channel import noise
from tests.support.flowgraphs import Messages, run, tag

NUM = Numerology()


def detect(grid, tags, detector):
    """Soft-vote PDUs for a stream of symbols."""
    tb = gr.top_block()
    source = blocks.vector_source_c(grid.ravel().tolist(), False, grid.shape[-1], tags)
    messages = Messages(tb, detector, "soft_votes")
    tb.connect(source, detector)
    run(tb)
    return messages.pdus(np.float32)


def noisy_votes(k, snr_db, rng, repeats=1, fading=False):
    """Random votes of one client and their received grid; with fading, each pair of tones fades on its own."""
    votes = rng.choice(np.int8([-1, 1]), k)
    grid = fsk_mv.encode(votes, NUM, rng, repeats)
    if fading:
        grid *= np.repeat(noise.complex_gaussian((len(grid), 96), 1.0, rng), 2, axis=1)
    return votes, grid + noise.complex_gaussian(grid.shape, 10 ** (-snr_db / 10), rng)


@pytest.mark.parametrize(("k", "repeats"), [(1, 1), (21_880, 1), (5000, 3)])
def test_soft_votes_are_those_of_dsp_bit_for_bit_with_metadata(k, repeats):
    _, grid = noisy_votes(k, 3, np.random.default_rng(1), repeats)
    tags = [tag(0, "packet_len", len(grid)), tag(0, "round", 7), tag(len(grid) - 1, "snr_db", 3.0)]
    (pdu,) = detect(grid, tags, fsk_mv_detector(k, repeats=repeats))
    np.testing.assert_array_equal(pdu.data, fsk_mv.detect(grid, k, NUM, repeats))
    metadata = {name: pmt.to_python(value) for name, value in pdu.metadata.items()}
    assert metadata == {"round": 7, "snr_db": 3.0}


@pytest.mark.parametrize("snr_db", [0, 6, 9])
def test_error_rate_in_noise_is_that_of_noncoherent_fsk(snr_db):
    k = 100_000
    votes, grid = noisy_votes(k, snr_db, np.random.default_rng(snr_db))
    (pdu,) = detect(grid, [tag(0, "packet_len", len(grid))], fsk_mv_detector(k))
    expected = np.exp(-(10 ** (snr_db / 10)) / 2) / 2
    wrong = np.mean(np.sign(pdu.data) != votes)
    assert abs(wrong - expected) < 3 * np.sqrt(expected * (1 - expected) / k)


@pytest.mark.parametrize(("snr_db", "repeats"), [(0, 1), (10, 1), (10, 2)])
def test_error_rate_in_rayleigh_fading_is_the_closed_form(snr_db, repeats):
    k = 100_000
    votes, grid = noisy_votes(k, snr_db, np.random.default_rng([snr_db, repeats]), repeats, fading=True)
    (pdu,) = detect(grid, [tag(0, "packet_len", len(grid))], fsk_mv_detector(k, repeats=repeats))
    expected = bounds.mv_error_probability(1, 0, 10 ** (snr_db / 10), repeats)
    wrong = np.mean(np.sign(pdu.data) != votes)
    assert abs(wrong - expected) < 3 * np.sqrt(expected * (1 - expected) / k)


def test_bad_bursts_are_dropped_and_good_ones_pass():
    """A stray symbol, a burst cut short, one too short for k, a tag that is no number, a NaN; good ones between."""
    _, good = noisy_votes(960, 3, np.random.default_rng(1))
    nan = good.copy()
    nan[3, 5] = np.nan
    pieces = [
        (good[:1], None),
        (good, 10),
        (good[:4], 10),
        (good, 10),
        (good[:3], 3),
        (good, "ten"),
        (nan, 10),
        (good, 10),
    ]
    starts = np.cumsum([0] + [len(piece) for piece, _ in pieces])
    tags = [tag(int(at), "packet_len", n) for at, (_, n) in zip(starts, pieces, strict=False) if n is not None]
    tags += [tag(int(at), "round", i) for i, at in enumerate(starts[:-1])]
    detector = fsk_mv_detector(960)
    found = detect(np.concatenate([piece for piece, _ in pieces]), tags, detector)
    assert [pmt.to_python(pdu.metadata["round"]) for pdu in found] == [1, 3, 7]
    for pdu in found:
        np.testing.assert_array_equal(pdu.data, fsk_mv.detect(good, 960, NUM))
    assert detector.dropped == 4


def test_setters_hold_from_the_next_burst_on():
    detector = fsk_mv_detector(96)
    detector.set_k(100)
    detector.set_repeats(2)
    _, grid = noisy_votes(100, 3, np.random.default_rng(1), 2)
    (pdu,) = detect(grid, [tag(0, "packet_len", len(grid))], detector)
    np.testing.assert_array_equal(pdu.data, fsk_mv.detect(grid, 100, NUM, 2))
    assert (detector.k, detector.repeats) == (100, 2)


@pytest.mark.parametrize(
    "arguments", [{"k": 0}, {"k": 9.5}, {"active_subcarriers": 6}, {"repeats": 0}, {"length_tag": ""}]
)
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        fsk_mv_detector(**arguments)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The hierarchical OFDM pair against dsp's: samples, subcarriers, soft votes and tags."""

import numpy as np
import pytest
from gnuradio import blocks, gr

from oac_blocks.dsp import Numerology, fsk_mv, ofdm
from oac_blocks.dsp.channel import noise
from oac_blocks.hier.ofdm_demodulator import ofdm_demodulator
from oac_blocks.hier.ofdm_modulator import ofdm_modulator
from tests.support.flowgraphs import run, tag, tags

NUMEROLOGIES = [
    Numerology(),
    Numerology(fft_size=64, cp_samples=16, active_subcarriers=48, dc_nulls=2),
    Numerology(fft_size=64, cp_samples=0, active_subcarriers=64, dc_nulls=0),
]


def parameters(num):
    return {name: value for name, value in num.to_dict().items() if name != "sample_rate_hz"}


def votes_grid(num, symbols, seed=1):
    rng = np.random.default_rng(seed)
    return fsk_mv.encode(rng.integers(-1, 2, symbols * num.votes_per_symbol).astype(np.int8), num, rng)


def modulate(grid, num, source_tags=()):
    tb = gr.top_block()
    source = blocks.vector_source_c(grid.ravel().tolist(), False, num.active_subcarriers, source_tags)
    sink = blocks.vector_sink_c()
    block = ofdm_modulator(**parameters(num))
    tb.connect(source, block, sink)
    run(tb)
    return np.array(sink.data(), np.complex64), tags(sink)


def demodulate(samples, num, source_tags, **options):
    tb = gr.top_block()
    source = blocks.vector_source_c(samples.tolist(), False, 1, source_tags)
    sink = blocks.vector_sink_c(num.active_subcarriers)
    block = ofdm_demodulator(**parameters(num), **options)
    tb.connect(source, block, sink)
    run(tb)
    return np.array(sink.data(), np.complex64).reshape(-1, num.active_subcarriers), tags(sink), block


@pytest.mark.parametrize("num", NUMEROLOGIES, ids=str)
def test_modulator_gives_the_samples_of_dsp(num):
    grid = votes_grid(num, 1000)
    samples, _ = modulate(grid, num)
    np.testing.assert_allclose(samples, ofdm.modulate(grid, num), atol=1e-6)


@pytest.mark.parametrize("num", NUMEROLOGIES, ids=str)
def test_tags_go_from_symbols_to_samples_once_each_and_back(num):
    """Bursts of many lengths: a length times 1/320 cut to an integer is sometimes one too small."""
    lengths = [1, 2, 3, 7, 49, 98, 103, 107, 161, 187, 196]
    starts = np.cumsum([0, *lengths])[:-1].tolist()
    in_symbols = [(at, "packet_len", n) for at, n in zip(starts, lengths, strict=True)]
    in_symbols += [(at, "round", t) for t, at in enumerate(starts)] + [(starts[-1] + 100, "note", 1)]
    grid = votes_grid(num, sum(lengths))
    samples, found = modulate(grid, num, [tag(*t) for t in in_symbols])
    size = num.symbol_samples
    in_samples = sorted((at * size, name, n * size if name == "packet_len" else n) for at, name, n in in_symbols)
    assert found == in_samples
    back, found, block = demodulate(samples, num, [tag(*t) for t in in_samples])
    assert found == sorted(in_symbols)
    np.testing.assert_allclose(back, grid, atol=2e-6)
    assert block.dropped == 0


@pytest.mark.parametrize("num", NUMEROLOGIES, ids=str)
def test_same_samples_give_the_soft_votes_of_dsp(num):
    grid = votes_grid(num, 228)
    rng = np.random.default_rng(2)
    samples = ofdm.modulate(grid, num)
    samples += noise.complex_gaussian(samples.shape, 0.5, rng)
    received, _, _ = demodulate(samples, num, [tag(0, "packet_len", len(samples))])
    k = 228 * num.votes_per_symbol
    soft, expected = fsk_mv.detect(received, k, num), fsk_mv.detect(ofdm.demodulate(samples, num), k, num)
    # Relative to the largest energies: float32 holds 6e-8 of these.
    np.testing.assert_allclose(soft, expected, atol=1e-6 * np.abs(expected).max())
    clear = np.abs(expected) > 1e-6 * np.abs(expected).max()
    np.testing.assert_array_equal(np.sign(soft[clear]), np.sign(expected[clear]))
    assert clear.mean() > 0.999


def test_early_window_is_that_of_dsp():
    num = NUMEROLOGIES[0]
    grid = votes_grid(num, 20)
    samples = ofdm.modulate(grid, num)
    early, _, block = demodulate(samples, num, [tag(0, "packet_len", len(samples))], early_samples=20)
    np.testing.assert_allclose(early, ofdm.demodulate(samples, num, 20), atol=2e-6)
    assert block.early_samples == 20
    block.set_early_samples(0)
    assert block.early_samples == 0


def test_bad_bursts_are_dropped_and_samples_between_bursts_skipped():
    """Noise, a burst, noise, one of half a symbol more, one cut short, a burst."""
    num = NUMEROLOGIES[0]
    burst = ofdm.modulate(votes_grid(num, 10), num)
    gap = noise.complex_gaussian(777, 1.0, np.random.default_rng(1))
    pieces = [(gap, None), (burst, 3200), (gap, None), (burst, 3360), (burst[:1000], 3200), (burst, 3200), (gap, None)]
    starts = np.cumsum([0] + [len(piece) for piece, _ in pieces])
    source_tags = [
        tag(int(at), "packet_len", n) for at, (_, n) in zip(starts[:-1], pieces, strict=True) if n is not None
    ]
    grid, found, block = demodulate(np.concatenate([piece for piece, _ in pieces]), num, source_tags)
    # Three whole symbols of the one cut short came through before its end was seen; who collects bursts drops them.
    assert found == [(0, "packet_len", 10), (10, "packet_len", 10), (13, "packet_len", 10)]
    np.testing.assert_allclose(grid[:10], votes_grid(num, 10), atol=2e-6)
    np.testing.assert_allclose(grid[13:], votes_grid(num, 10), atol=2e-6)
    assert block.dropped == 2


@pytest.mark.parametrize("block", [ofdm_modulator, ofdm_demodulator])
@pytest.mark.parametrize(
    "arguments",
    [{"fft_size": 7}, {"cp_samples": 257}, {"active_subcarriers": 190}, {"dc_nulls": 3}, {"length_tag": ""}],
)
def test_bad_arguments_are_named(block, arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name} must be .*{value}"):
        block(**arguments)


@pytest.mark.parametrize("early", [-1, 65, 1.5])
def test_early_window_lies_within_the_prefix(early):
    with pytest.raises(ValueError, match=f"early_samples must be .*{early}"):
        ofdm_demodulator(early_samples=early)

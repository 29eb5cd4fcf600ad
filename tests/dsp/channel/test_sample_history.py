# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of a stream against a plain array of all of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oac_blocks.dsp.channel.sample_history import SampleHistory

LENGTH = 700
CELL = 256  # as coarse as silence may be known


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=12),
    reach=st.integers(LENGTH, 3000),
    density=st.sampled_from([0.0, 0.0005, 0.5]),
    seed=st.integers(0, 1000),
)
def test_windows_and_silence_are_those_of_the_stream(sizes, reach, density, seed):
    rng = np.random.default_rng(seed)
    whole = (rng.random(reach + sum(sizes)) < density).astype(np.complex64)
    whole[:reach] = 0
    history, end = SampleHistory(reach), 0
    for size in sizes:
        assert history.push(whole[reach + end : reach + end + size]) == 0
        end += size
        places = rng.integers(end - reach, end - LENGTH + 1, 20)
        windows = history.windows(places, LENGTH)
        loud = history.any_loud(places, LENGTH)
        for place, window, maybe in zip(places, windows, loud, strict=True):
            np.testing.assert_array_equal(window, whole[reach + place : reach + place + LENGTH])
            around = whole[max(0, reach + place - CELL) : reach + place + LENGTH + CELL]
            assert window.any() <= maybe <= around.any()
        history.forget(end - reach)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e13, complex(0, np.nan), complex(0, -1e20)])
def test_bad_samples_become_silence_and_are_counted(bad):
    x = np.zeros(1000, np.complex64)
    x[500], x[600:603] = 1, bad
    history = SampleHistory(256)
    assert history.push(x) == 3
    x[600:603] = 0
    np.testing.assert_array_equal(history.windows(np.array([0]), 1000)[0], x)
    assert history.push(x) == 0


def test_a_long_stream_takes_no_more_memory():
    history = SampleHistory(1000)
    held = set()
    for i in range(100):
        history.push(np.full(777, i, np.complex64))
        history.forget((i + 1) * 777 - 1000)
        held.add(len(history._buffer))
    assert max(held) < 8 * (1000 + 777)
    assert sorted(held)[-1] == len(history._buffer)

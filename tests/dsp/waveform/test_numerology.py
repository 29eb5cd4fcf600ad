# SPDX-License-Identifier: GPL-3.0-or-later
import dataclasses

import numpy as np
import pytest

from oac_blocks.dsp import Numerology


def test_defaults_are_those_of_the_published_prototype():
    num = Numerology()
    assert (num.sample_rate_hz, num.fft_size, num.cp_samples, num.active_subcarriers) == (20e6, 256, 64, 192)
    assert num.symbol_samples == 320
    assert num.votes_per_symbol == 96
    assert num.entries_per_symbol == 384
    assert num.symbol_seconds == 16e-6


def test_active_bins_are_96_on_each_side_of_8_nulls_around_dc():
    bins = Numerology().active_bins() - 128
    assert len(bins) == 192
    assert np.sum(bins < 0) == np.sum(bins > 0) == 96
    unused_in_the_middle = set(range(bins.min(), bins.max())) - set(bins)
    assert unused_in_the_middle == set(range(-4, 4))


def test_is_frozen_and_survives_a_dictionary():
    num = Numerology(sample_rate_hz=2.5e6, cp_samples=32)
    assert Numerology.from_dict(num.to_dict()) == num
    with pytest.raises(dataclasses.FrozenInstanceError):
        num.fft_size = 512


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("active_subcarriers", 191),
        ("active_subcarriers", 190),
        ("active_subcarriers", 252),
        ("active_subcarriers", 0),
        ("active_subcarriers", 192.0),
        ("cp_samples", 257),
        ("cp_samples", -1),
        ("fft_size", 255),
        ("fft_size", 0),
        ("dc_nulls", 7),
        ("dc_nulls", 66),
        ("sample_rate_hz", 0.0),
        ("sample_rate_hz", float("nan")),
        ("sample_rate_hz", float("inf")),
        ("sample_rate_hz", "fast"),
    ],
)
def test_bad_values_are_named(field, value):
    with pytest.raises(ValueError, match=field) as caught:
        Numerology(**{field: value})
    assert "must be" in str(caught.value)


def test_unknown_key_is_named_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"cp_sample'.*cp_samples"):
        Numerology.from_dict({"cp_sample": 16})

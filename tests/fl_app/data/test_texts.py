# SPDX-License-Identifier: GPL-3.0-or-later
"""The data set `text`: what the package carries, and how it is cut."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_app.core.samples import ArraySamples
from fl_app.data import DataError, load_dataset
from fl_app.data.texts import carried_text, counted_loss, numbered, windows
from oac_blocks.plugins import PluginError

# Of the text in UTF-8, made from the 35 files as the docstring of fl_app/data/texts.py says.
TEXT_HASH = "7462fd55d2bc8bef2358ebd576267249eac5c00b2394bac9e666b860f69052b9"


def load(**args):
    return load_dataset("text", args=args)


def arrays(split):
    samples = split.all()
    assert isinstance(samples, ArraySamples)
    return samples.inputs, samples.targets


def test_the_novel_is_there_from_loomings_to_the_mast_head():
    text = carried_text()
    assert len(text) == 330_885
    assert text.startswith("CHAPTER 1. Loomings.\n\nCall me Ishmael. ")
    assert [f"CHAPTER {number}." in text for number in (35, 36)] == [True, False]
    assert hashlib.sha256(text.encode()).hexdigest() == TEXT_HASH


def test_numbers_stand_for_the_characters_of_the_vocabulary():
    text = "—naïve\n\U0001f40b, a whale"
    numbers, vocabulary = numbered(text)
    assert "".join(vocabulary[number] for number in numbers) == text
    assert vocabulary == "".join(sorted(set(text)))


@given(length=st.integers(2, 200), context=st.integers(1, 60), stride=st.integers(1, 70))
def test_windows_are_all_that_fit_and_targets_are_one_further(length, context, stride):
    inputs, targets = windows(np.arange(length), context, stride)
    assert inputs.shape == targets.shape
    np.testing.assert_array_equal(targets, inputs + 1)
    expected = [start for start in range(0, length, stride) if start + context < length]
    assert [row[0] for row in inputs.tolist()] == expected
    assert (np.diff(inputs, axis=1) == 1).all()


def test_the_test_has_the_end_of_the_text_and_shares_no_character_with_training():
    data, text = load(context=50, test_share=0.2), carried_text()
    numbers, _ = numbered(text)
    cut = len(text) - round(0.2 * len(text))
    (train_inputs, train_targets), (test_inputs, test_targets) = arrays(data.train), arrays(data.test)
    whole = 50 * (cut // 50)
    np.testing.assert_array_equal(train_inputs.reshape(-1), numbers[:whole])
    np.testing.assert_array_equal(train_targets.reshape(-1), numbers[1 : whole + 1])
    assert whole < cut, "the last target is still in the training part"
    np.testing.assert_array_equal(test_inputs.reshape(-1), numbers[cut : cut + test_inputs.size])
    np.testing.assert_array_equal(test_targets.reshape(-1), numbers[cut + 1 : cut + 1 + test_inputs.size])
    assert len(text) - (cut + 1 + test_inputs.size) < 50, "fewer characters are left out than a window has"


def test_training_windows_may_overlap_but_test_windows_do_not():
    apart, close = load(context=40), load(context=40, stride=10)
    assert len(close.train) == pytest.approx(4 * len(apart.train), abs=4)
    np.testing.assert_array_equal(arrays(close.train)[0][::4], arrays(apart.train)[0][: (len(close.train) + 3) // 4])
    np.testing.assert_array_equal(arrays(close.test)[0], arrays(apart.test)[0])


def test_a_part_of_the_text_keeps_the_whole_vocabulary():
    data = load(context=32)
    _, vocabulary = numbered(carried_text())
    part = data.subset(np.arange(1), np.arange(1))
    assert part.facts()["vocabulary"] == data.facts()["vocabulary"] == len(vocabulary) == 78
    assert max(part.train.targets.max(), part.test.targets.max()) < 77
    assert part.facts()["context"] == 32


def test_losses_of_models_that_count():
    """In "abababab|ab" an a follows nothing, b follows a 4 times of 4; one is added over a vocabulary of 2."""
    text = "ab" * 5
    assert counted_loss(text, 1, 0.2) == pytest.approx(math.log(2))
    assert counted_loss(text, 2, 0.2) == pytest.approx(-math.log((4 + 1) / (4 + 2)))
    novel = carried_text()
    assert [round(counted_loss(novel, length), 2) for length in (1, 2, 3)] == [3.02, 2.43, 2.11]


def test_a_model_of_single_characters_loses_the_entropy_and_the_distance_of_the_two_parts():
    """The cross-entropy is the entropy of the test's shares plus their divergence from the model's."""
    text = carried_text()
    cut = len(text) - round(0.1 * len(text))
    vocabulary = sorted(set(text))
    model = np.array([text[:cut].count(one) + 1 for one in vocabulary]) / (cut + len(vocabulary))
    test = np.array([text[cut:].count(one) for one in vocabulary]) / (len(text) - cut)
    there = test > 0
    entropy = -(test[there] * np.log(test[there])).sum()
    divergence = (test[there] * np.log(test[there] / model[there])).sum()
    assert counted_loss(text, 1) == pytest.approx(entropy + divergence)


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "own.txt"
    file.write_text("abcde" * 20, encoding="utf-8")
    data = load(file=str(file), context=4)
    assert data.facts()["vocabulary"] == 5
    assert (len(data.train), len(data.test)) == (22, 2)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"own\.txt' cannot be read as UTF-8"):
        load(file=str(file))
    with pytest.raises(DataError, match="cannot be read as UTF-8"):
        load(file=str(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"context": 0}, "context must be 1 or more, not 0"),
        ({"stride": 0}, "stride must be 1 or more, not 0"),
        ({"test_share": 1.0}, "test_share must be above 0 and below 1, not 1.0"),
        ({"contxt": 3}, r"load_text\(\) has no argument 'contxt'"),
    ],
)
def test_bad_arguments_are_named(args, message):
    with pytest.raises(PluginError, match=message):
        load(**args)


def test_a_text_without_room_for_a_window_is_named():
    with pytest.raises(DataError, match="33088 for the test are too few for windows of context = 40000"):
        load(context=40_000)

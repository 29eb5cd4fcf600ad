# SPDX-License-Identifier: GPL-3.0-or-later
"""Next-character prediction: losses and figures against entropies that follow from counting."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from fl_app.core.text_task import NextCharacter
from fl_app.data.texts import carried_text, numbered, windows

CONTEXT = 16


@pytest.fixture(scope="module")
def text():
    numbers, vocabulary = numbered(carried_text()[:20_000])
    inputs, targets = windows(numbers, CONTEXT, CONTEXT)
    return torch.from_numpy(inputs), torch.from_numpy(targets), len(vocabulary)


def entropy(counts):
    """Return the entropy of the shares that counts are of their sum, in nats."""
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())


def figures_of(outputs, targets):
    task = NextCharacter()
    loss = float(task.loss(outputs, targets))
    return loss, task.figures(task.totals(outputs, targets), len(targets), loss)


def test_a_model_that_knows_nothing_is_as_perplexed_as_there_are_characters(text):
    _, targets, vocabulary = text
    loss, figures = figures_of(torch.zeros(*targets.shape, vocabulary), targets)
    assert loss == pytest.approx(math.log(vocabulary), rel=1e-6)
    assert figures["perplexity"] == pytest.approx(vocabulary, rel=1e-5)
    assert figures["bits_per_character"] == pytest.approx(math.log2(vocabulary), rel=1e-6)


def test_a_model_of_single_characters_has_their_entropy_as_its_loss(text):
    _, targets, vocabulary = text
    counts = Counter(targets.flatten().tolist())
    shares = torch.tensor([counts[number] / targets.numel() for number in range(vocabulary)])
    loss, figures = figures_of(shares.log().expand(*targets.shape, -1), targets)
    assert loss == pytest.approx(entropy(counts), rel=1e-5)
    assert figures["accuracy"] == max(counts.values()) / targets.numel()


def test_a_model_of_pairs_has_the_conditional_entropy_as_its_loss(text):
    inputs, targets, vocabulary = text
    pairs = torch.zeros(vocabulary, vocabulary)
    pairs.index_put_((inputs.flatten(), targets.flatten()), torch.ones(inputs.numel()), accumulate=True)
    loss, figures = figures_of((pairs / pairs.sum(1, keepdim=True)).log()[inputs], targets)
    both = Counter(zip(inputs.flatten().tolist(), targets.flatten().tolist(), strict=True))
    assert loss == pytest.approx(entropy(both) - entropy(Counter(inputs.flatten().tolist())), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(float(pairs.max(dim=1).values.sum()) / targets.numel())


def test_perplexity_is_the_exponential_of_the_loss_and_never_overflows():
    def perplexity(loss):
        return NextCharacter().figures({"correct": 0, "characters": 1}, 1, loss)["perplexity"]

    assert perplexity(2.5) == math.exp(2.5)
    assert math.isfinite(perplexity(1e6))
    assert math.isnan(perplexity(math.nan))


def test_strata_are_consecutive_tenths_of_the_text():
    strata = NextCharacter().strata(np.zeros((25, 4), np.int64))
    assert (np.diff(strata) >= 0).all()
    assert np.bincount(strata).tolist() == [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    assert NextCharacter().strata(np.zeros((3, 4), np.int64)).tolist() == [0, 3, 6]


def test_facts_come_from_the_targets_unless_the_vocabulary_is_known():
    inputs, targets = np.zeros((1, 5), np.int64), np.array([[1, 2, 7, 0, 0]])
    assert NextCharacter().facts(inputs, targets) == {"vocabulary": 8, "context": 5}
    assert NextCharacter(20).facts(inputs, targets) == {"vocabulary": 20, "context": 5}
    with pytest.raises(ValueError, match="vocabulary must be 2 or more, not 1"):
        NextCharacter(1)


def test_outputs_of_another_shape_are_named():
    with pytest.raises(ValueError, match=r"outputs of shape \(2, 30\) do not fit targets \(2, 5\)"):
        NextCharacter().loss(torch.zeros(2, 30), torch.zeros(2, 5, dtype=torch.int64))

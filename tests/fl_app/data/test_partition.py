# SPDX-License-Identifier: GPL-3.0-or-later
"""Every sample at exactly one client, none empty, and the statistics that each kind of partition promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_app.data.partition import PARTITION_NAMES, partition
from fl_app.data.partition_plot import partition_figure
from fl_app.data.partition_table import PartitionTable
from fl_app.pictures import save_figure

BALANCED = np.repeat(np.arange(10), 600)


def class_counts(labels, parts):
    return np.stack([np.bincount(labels[part], minlength=labels.max() + 1) for part in parts])


@settings(max_examples=200, deadline=None)
@given(
    how=st.sampled_from(PARTITION_NAMES),
    labels=st.lists(st.integers(0, 9), min_size=1, max_size=80),
    data=st.data(),
    alpha=st.sampled_from([1e-3, 0.1, 0.3, 1.0, 100.0, 1e6]),
    shards_per_client=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_sample_has_one_client_and_every_client_a_sample(how, labels, data, alpha, shards_per_client, seed):
    n_clients = data.draw(st.integers(1, len(labels)))
    parts = partition(
        np.array(labels), n_clients, how, np.random.default_rng(seed), alpha=alpha, shards_per_client=shards_per_client
    )
    assert len(parts) == n_clients
    assert min(len(part) for part in parts) >= 1
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


@pytest.mark.parametrize("how", PARTITION_NAMES)
def test_the_generator_decides(how):
    first, again, other = (partition(BALANCED, 7, how, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_iid_is_even_in_size_and_in_classes():
    counts = class_counts(BALANCED, partition(BALANCED, 10, "iid", np.random.default_rng(0)))
    assert (counts.sum(axis=1) == 600).all()
    # Drawing 600 of 6,000 without replacement: hypergeometric, mean 60.
    sigma = np.sqrt(600 * 0.1 * 0.9 * (1 - 600 / 6000))
    assert np.abs(counts - 60).max() < 5 * sigma
    assert {len(part) for part in partition(BALANCED, 7, "iid", np.random.default_rng(0))} == {857, 858}


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0, 10.0])
def test_dirichlet_shares_have_the_moments_of_the_distribution(alpha):
    """A symmetric Dirichlet over n clients has mean 1/n and variance (1/n)(1 - 1/n)/(n alpha + 1) per client.

    Estimated over 100 classes x 20 draws; a share's square has heavy tails, hence the 10 %.
    """
    n, per_class = 20, 200
    labels = np.repeat(np.arange(100), per_class)
    shares = np.concatenate(
        [
            class_counts(labels, partition(labels, n, "dirichlet", np.random.default_rng(seed), alpha)).T
            for seed in range(20)
        ]
    )
    shares = shares / per_class
    assert shares.mean() == pytest.approx(1 / n)
    assert shares.var() == pytest.approx((1 / n) * (1 - 1 / n) / (n * alpha + 1), rel=0.1)


def test_dirichlet_makes_sizes_differ_as_well():
    """The size is a sum over 10 independent classes: its coefficient of variation is sqrt((n-1)/(10 (n alpha + 1)))."""
    n, alpha = 50, 0.3
    variations = []
    for seed in range(20):
        sizes = [len(part) for part in partition(BALANCED, n, "dirichlet", np.random.default_rng(seed), alpha)]
        variations.append(np.var(sizes) / np.mean(sizes) ** 2)
    assert np.mean(variations) == pytest.approx((n - 1) / (10 * (n * alpha + 1)), rel=0.15)


def test_smaller_alpha_is_less_even():
    def unevenness(alpha):
        return class_counts(BALANCED, partition(BALANCED, 10, "dirichlet", np.random.default_rng(3), alpha)).std()

    assert unevenness(0.05) > unevenness(0.3) > unevenness(3) > unevenness(300)


def test_shards_give_each_client_few_classes():
    parts = partition(BALANCED, 10, "shards", np.random.default_rng(0), shards_per_client=2)
    counts = class_counts(BALANCED, parts)
    assert (counts.sum(axis=1) == 600).all()
    assert ((counts > 0).sum(axis=1) <= 2).all(), "20 shards of 300 out of classes of 600: a shard has one class"
    assert len({tuple(row) for row in counts > 0}) > 1


def test_extreme_draws_leave_nobody_empty():
    """With alpha = 0.001 a class goes to one client as a whole: 2 classes feed at most 2 of the 20 clients."""
    labels = np.repeat([0, 1], 50)
    sizes = sorted(len(part) for part in partition(labels, 20, "dirichlet", np.random.default_rng(0), alpha=1e-3))
    assert sizes[0] == 1
    assert sum(sizes) == 100
    assert sizes[-1] > 20


def test_one_client_has_everything():
    for how in PARTITION_NAMES:
        (part,) = partition(BALANCED, 1, how, np.random.default_rng(0))
        assert (part == np.arange(6000)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_clients": 0}, r"n_clients must be 1\.\.6"),
        ({"n_clients": 7}, r"n_clients must be 1\.\.6 .*not 7"),
        ({"how": "dirichlett"}, "did you mean 'dirichlet'"),
        ({"alpha": 0.0}, "alpha must be a finite number above 0, not 0"),
        ({"alpha": float("nan")}, "alpha"),
        ({"how": "shards", "shards_per_client": 0}, "shards_per_client must be 1 or more, not 0"),
        ({"labels": np.zeros((2, 3), int)}, "vector of integers"),
        ({"labels": np.zeros(6)}, "vector of integers"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    given_arguments = {"labels": np.arange(6), "n_clients": 2, "how": "dirichlet", "rng": np.random.default_rng(0)}
    with pytest.raises(ValueError, match=message):
        partition(**{**given_arguments, **arguments})


@pytest.mark.parametrize("classes", [2, 20, 26, 100])
def test_the_plot_is_drawn_without_a_display(tmp_path, monkeypatch, classes):
    monkeypatch.delenv("DISPLAY", raising=False)
    labels = np.arange(400) % classes
    parts = partition(labels, 5, "dirichlet", np.random.default_rng(0))
    save_figure(partition_figure(PartitionTable.count(labels, parts)), tmp_path / "partition")
    path = tmp_path / "partition.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    from matplotlib.image import imread

    pixels = imread(path)
    assert len(np.unique((pixels[..., :3] * 255).astype(int).reshape(-1, 3), axis=0)) > classes, "a colour per class"


def test_the_plot_takes_names_of_classes(tmp_path):
    table = PartitionTable.count(np.array([0, 1, 1]), [np.array([0, 1]), np.array([2])], ("cat", "dog"))
    save_figure(partition_figure(table), tmp_path / "partition", ["svg"])
    assert (tmp_path / "partition.svg").read_text().count("<svg") == 1


@pytest.mark.parametrize("names", [None, ("A, B", 'the "other"', "c")])
def test_the_table_of_a_partition_survives_its_file(names):
    labels = np.array([0, 1, 1, 2, 0])
    table = PartitionTable.count(
        labels, [np.array([0, 1, 2]), np.array([4]), np.array([3])], names, "tenth of the text"
    )
    assert table.counts.tolist() == [[1, 2, 0], [1, 0, 0], [0, 0, 1]]
    again = PartitionTable.from_csv(table.csv_text())
    assert again.counts.tolist() == table.counts.tolist()
    assert (again.names, again.strata_name) == (names or ("0", "1", "2"), "tenth of the text")

# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch norm's statistics: they do not travel over the air, and are averaged over the clients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fl_app.core.models import (
    average_buffers,
    build_model,
    get_buffers,
    measure_buffers,
    parameter_layout,
    set_buffers,
)
from tests.fl_app.core.small_models import images, small_resnet

# ---------------------------------------------------------------------------------------------------------------
# Batch norm


def test_buffers_are_batch_norms_and_do_not_travel_over_the_air():
    model = small_resnet()
    buffers = get_buffers(model)
    assert {name.rsplit(".", 1)[1] for name in buffers} == {"running_mean", "running_var", "num_batches_tracked"}
    assert not {slot.name for slot in parameter_layout(model)} & set(buffers)
    assert get_buffers(build_model("cnn", 26)) == {}


def test_buffers_of_the_full_resnet_are_small():
    buffers = get_buffers(build_model("resnet18", 10, 3, 32))
    assert sum(value.size for value in buffers.values() if value.ndim) == 9_600  # as docs/models.md says


def test_buffers_survive_the_round_trip():
    model = small_resnet()
    model.train()(images(16))
    buffers = get_buffers(model)
    other = small_resnet()
    assert any((get_buffers(other)[name] != value).any() for name, value in buffers.items())
    set_buffers(other, buffers)
    for name, value in get_buffers(other).items():
        assert (value == buffers[name]).all()
        assert value.dtype == buffers[name].dtype
    batch = images(4, seed=1)
    assert torch.equal(model.eval()(batch), other.eval()(batch))


def test_wrong_buffers_are_refused():
    model = small_resnet()
    buffers = get_buffers(model)
    with pytest.raises(ValueError, match=r"differ: \['bn1.running_mean'\]"):
        set_buffers(model, {name: value for name, value in buffers.items() if name != "bn1.running_mean"})
    with pytest.raises(ValueError, match=r"bn1.running_mean must have shape \(4,\)"):
        set_buffers(model, {**buffers, "bn1.running_mean": np.zeros(5, np.float32)})


def test_averaged_statistics_are_those_of_the_pooled_data():
    """One batch-norm layer, momentum 1: running statistics are those of the client's data. Pooled they must be those
    of all data together (up to the n/(n-1) of the unbiased variance)."""
    rng = np.random.default_rng(0)
    sizes, clients, everything = [300, 500, 1200], [], []
    for number, size in enumerate(sizes):
        data = torch.from_numpy(rng.normal(3 * number, 1 + number, (size, 2)).astype(np.float32))
        layer = nn.BatchNorm1d(2, momentum=1.0)
        layer(data)
        clients.append(get_buffers(layer))
        everything.append(data)
    pooled = average_buffers(clients, sizes)
    together = torch.cat(everything).double()
    np.testing.assert_allclose(pooled["running_mean"], together.mean(0), rtol=1e-5)
    np.testing.assert_allclose(pooled["running_var"], together.var(0), rtol=5e-3)
    plain = sum(size * client["running_var"] for size, client in zip(sizes, clients, strict=True)) / sum(sizes)
    assert (plain < 0.6 * pooled["running_var"]).all(), "the plain average misses the spread between clients"


def test_average_of_equal_clients_is_the_client():
    model = small_resnet()
    model.train()(images(8))
    buffers = get_buffers(model)
    averaged = average_buffers([buffers] * 3, [1, 2, 3])
    for name, value in averaged.items():
        np.testing.assert_allclose(value, buffers[name], rtol=1e-6)
        assert value.dtype == buffers[name].dtype
        assert value.shape == buffers[name].shape


def test_a_client_of_weight_zero_does_not_count():
    one, two = ({"running_mean": np.full(2, value, np.float32)} for value in (1, 5))
    assert average_buffers([one, two], [0, 1])["running_mean"].tolist() == [5, 5]


def test_counts_take_the_largest():
    clients = [{"num_batches_tracked": np.array(count)} for count in (3, 9, 5)]
    assert average_buffers(clients)["num_batches_tracked"] == 9


def test_measured_statistics_are_those_of_the_data():
    data = torch.randn(5, 40, 3, generator=torch.Generator().manual_seed(1)) * torch.tensor([1.0, 2, 3]) + 7
    layer = nn.BatchNorm1d(3)
    measured = measure_buffers(layer, data)
    np.testing.assert_allclose(measured["running_mean"], data.mean(dim=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(measured["running_var"], data.var(dim=1).mean(dim=0), rtol=1e-5)


def test_measuring_leaves_the_model_as_it_was():
    model = small_resnet()
    model.train()(images(8))
    model.layer1.eval()
    before, modes = get_buffers(model), [module.training for module in model.modules()]
    measured = measure_buffers(model, [images(8, seed=2), images(8, seed=3)])
    assert any((measured[name] != before[name]).any() for name in before)
    assert measured["bn1.num_batches_tracked"] == before["bn1.num_batches_tracked"]
    after = get_buffers(model)
    assert all((after[name] == before[name]).all() for name in before)
    assert [module.training for module in model.modules()] == modes
    assert model.bn1.momentum == 0.1
    again = measure_buffers(model, [images(8, seed=2), images(8, seed=3)])
    assert all((again[name] == measured[name]).all() for name in measured)


def test_measuring_needs_a_batch_and_cleans_up_without_one():
    model = small_resnet()
    model.train()(images(8))
    before = get_buffers(model)
    with pytest.raises(ValueError, match="1 batch or more"):
        measure_buffers(model, [])
    assert all((value == before[name]).all() for name, value in get_buffers(model).items())
    assert measure_buffers(build_model("cnn", 10), [images(2, channels=1, size=28)]) == {}


@pytest.mark.parametrize(
    ("clients", "weights", "message"),
    [
        ([], None, "1 client or more"),
        ([{"a": np.ones(1)}], [1, 2], "weights must be 1 numbers"),
        ([{"a": np.ones(1)}], [-1], "0 or more"),
        ([{"a": np.ones(1)}], [0], "not all 0"),
        ([{"a": np.ones(1)}], [np.nan], "0 or more"),
        ([{"a": np.ones(1)}, {"b": np.ones(1)}], None, "client 1 does not have the same buffers"),
        ([{"a": np.ones(1)}, {"a": np.ones(2)}], None, r"a of client 1 has shape \(2,\)"),
        ([{"a": np.ones(1)}, {"a": np.full(1, np.nan)}], None, "a of client 1 is not finite"),
    ],
)
def test_bad_buffers_are_refused(clients, weights, message):
    with pytest.raises(ValueError, match=message):
        average_buffers(clients, weights)

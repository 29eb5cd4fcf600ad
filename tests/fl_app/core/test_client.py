# SPDX-License-Identifier: GPL-3.0-or-later
"""A client's local training and what it puts on the air."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fl_app.core.client import Broadcast, ClientGroup, LocalTraining, local_update
from fl_app.core.models import ModelSpec, build_model, get_buffers, get_gradients, get_parameters, set_parameters
from fl_app.core.networks.images import layout_of
from fl_app.core.participation import participants
from fl_app.core.samples import ArraySamples
from fl_app.core.steps.batches import epoch_batches, step_batches
from fl_app.core.steps.local_step import LocalOptions
from fl_app.core.steps.schedules import RateSchedule
from fl_app.core.streams import stream
from fl_app.core.task import Classification
from oac_blocks.dsp.waveform.schemes import scheme_named

CLASSES = 4


def make_samples(n, seed=0, channels=1):
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(n, channels, 8, 8)).astype(np.float32)
    return ArraySamples(images, rng.integers(0, CLASSES, n))


def make_local(**changes):
    values = {
        "seed": 7,
        "n_clients": 4,
        "fraction": 1.0,
        "model": ModelSpec("cnn", facts={"classes": CLASSES, "in_channels": 1, "image_size": 8}),
        "task": Classification(),
        "H": 2,
        "epochs": 0,
        "batch_size": 6,
        "options": LocalOptions(0.05),
        "schedule": RateSchedule(0.05, rounds=9),
        "weights": (),
        "scheme": "onebit",
        "abstain_below": 0.0,
        "device": "cpu",
        "threads": 1,
    }
    return LocalTraining(**{**values, **changes})


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def model():
    return build_model("cnn", CLASSES, 1, 8, seed=3)


def plain_gradient(model, w, images, labels):
    set_parameters(model, w)
    model.zero_grad()
    nn.functional.cross_entropy(model(torch.from_numpy(images)), torch.from_numpy(labels)).backward()
    return get_gradients(model)


def test_update_is_the_sum_of_the_gradients_along_the_way(model):
    data, w, lr, H = make_samples(5), get_parameters(model), 0.05, 3
    rng = np.random.default_rng(1)
    # A batch as large as the data holds all of it, in whatever order.
    total, loss = local_update(model, data, w, LocalOptions(lr), step_batches(5, 5, H, rng), rng)
    here, expected = w.copy(), np.zeros_like(w)
    for _ in range(H):
        gradient = plain_gradient(model, here, data.inputs, data.targets)
        expected += gradient
        here = here - np.float32(lr) * gradient
    np.testing.assert_allclose(total, expected, rtol=1e-3, atol=1e-5)
    assert 0 < loss < 3


def test_batches_come_from_the_generator_alone(model):
    data, w = make_samples(40), get_parameters(model)

    def update(seed):
        rng = np.random.default_rng(seed)
        return local_update(model, data, w, LocalOptions(0.1), step_batches(40, 8, 2, rng), rng)[0]

    one, two, other = (update(seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_client_with_less_than_a_batch_uses_all_it_has(model):
    data, w = make_samples(3), get_parameters(model)
    rng = np.random.default_rng(1)
    total, _ = local_update(model, data, w, LocalOptions(0.1), step_batches(3, 50, 1, rng), rng)
    np.testing.assert_allclose(total, plain_gradient(model, w, data.inputs, data.targets), rtol=1e-3, atol=1e-6)


def test_analog_payload_is_the_selected_entries():
    gradient, selected = np.arange(10, dtype=np.float32), np.array([1, 4, 9])
    assert scheme_named("analog").payload_of(gradient[selected], np.random.default_rng(0)).tolist() == [1, 4, 9]


def test_votes_are_signs_zeros_a_coin_and_small_ones_silent():
    gradient = np.concatenate([np.zeros(4000), [-2.0, 3.0, 0.1, -0.1]]).astype(np.float32)
    selected = np.arange(gradient.size)
    votes = scheme_named("onebit").payload_of(gradient[selected], np.random.default_rng(0))
    assert votes.dtype == np.int8
    assert votes[4000:].tolist() == [-1, 1, 1, -1]
    # 4000 fair coins: the sum has a standard deviation of 63, five of them are 316
    assert set(votes[:4000].tolist()) == {-1, 1}
    assert abs(int(votes[:4000].sum(dtype=int))) < 316
    silent = scheme_named("onebit").payload_of(gradient[selected], np.random.default_rng(0), abstain_below=0.5)
    assert silent[4000:].tolist() == [-1, 1, 0, 0]


def reports_of(task, clients, w, t=5):
    group = ClientGroup(task, clients, {})
    selected = np.arange(0, w.size, 3)
    return {report.client: report for report in group.train(Broadcast(t, w, selected))}


def test_report_depends_on_neither_group_nor_order(model):
    data, w = {n: make_samples(20, n) for n in range(4)}, get_parameters(model)
    together = reports_of(make_local(), data, w)
    alone = reports_of(make_local(), {2: data[2]}, w)
    backwards = reports_of(make_local(), dict(reversed(data.items())), w)
    np.testing.assert_array_equal(alone[2].payload, together[2].payload)
    for n in data:
        np.testing.assert_array_equal(backwards[n].payload, together[n].payload)
    assert alone[2].loss == together[2].loss


def analog_sums(w, t=5, **changes):
    (report,) = ClientGroup(make_local(scheme="analog", **changes), {2: make_samples(20)}, {}).train(
        Broadcast(t, w, np.arange(w.size))
    )
    return report.payload


def test_rate_is_that_of_the_round(model):
    w = get_parameters(model)
    falling = RateSchedule(0.2, rounds=9, name="exponential", factor=0.5)
    scheduled = analog_sums(w, t=2, schedule=falling)
    np.testing.assert_array_equal(scheduled, analog_sums(w, t=2, schedule=RateSchedule(0.05, rounds=9)))
    assert not np.array_equal(scheduled, analog_sums(w, t=2, schedule=RateSchedule(0.2, rounds=9)))


def test_every_option_reaches_the_steps(model):
    w = get_parameters(model)
    plain = analog_sums(w)
    for options in (
        LocalOptions(0.05, momentum=0.9),
        LocalOptions(0.05, momentum=0.9, nesterov=True),
        LocalOptions(0.05, weight_decay=0.1),
        LocalOptions(0.05, clip_norm=0.01),
    ):
        assert not np.array_equal(analog_sums(w, options=options), plain), options


def test_epochs_take_the_place_of_steps(model):
    w, data = get_parameters(model), make_samples(20)
    rng = stream(7, "batches", 5, 2)
    batches = list(epoch_batches(20, 6, 2, rng))  # these samples draw nothing in between
    expected, _ = local_update(model, data, w, LocalOptions(0.05), batches, rng)
    np.testing.assert_array_equal(analog_sums(w, epochs=2), expected)
    assert len(batches) == 8


def test_only_clients_that_take_part_train(model):
    data, w = {n: make_samples(20, n) for n in range(4)}, get_parameters(model)
    everyone = reports_of(make_local(), data, w)
    some = reports_of(make_local(fraction=0.5), data, w)
    assert list(some) == participants(7, 5, 4, 0.5).tolist()
    for n, report in some.items():
        np.testing.assert_array_equal(report.payload, everyone[n].payload)


def test_weight_multiplies_the_sum(model):
    w = get_parameters(model)
    np.testing.assert_array_equal(analog_sums(w, weights=(0.3, 0.2, 2.5)), np.float32(2.5) * analog_sums(w))


def test_client_without_finite_gradients_has_nothing_to_send(model):
    good, bad = make_samples(20), make_samples(20)
    bad.inputs[:, 0, 3, 3] = np.nan
    reports = reports_of(make_local(), {0: bad, 1: good}, get_parameters(model))
    assert reports[0].payload is None
    alone = reports_of(make_local(), {1: good}, get_parameters(model))
    np.testing.assert_array_equal(reports[1].payload, alone[1].payload)


def test_batch_norm_is_measured_by_each_client_on_its_own_data():
    facts = {"classes": CLASSES, "in_channels": 3, "image_size": 8}
    task = make_local(model=ModelSpec("resnet18", {"width": 4}, facts))
    model = build_model("resnet18", CLASSES, 3, 8, width=4)
    data = {n: make_samples(20, n, channels=3) for n in range(2)}
    w = get_parameters(model)
    group, alone = ClientGroup(task, data, {}), ClientGroup(task, {1: data[1]}, {})
    list(group.train(Broadcast(0, w, np.arange(9))))  # what local training does to the running averages is forgotten
    measured, (other,) = dict(group.measure(3, w)), list(alone.measure(3, w))
    assert other[0] == 1
    assert measured[1].keys() == get_buffers(model).keys()
    for name, value in other[1].items():
        np.testing.assert_array_equal(measured[1][name], value)
    assert not np.array_equal(measured[0]["bn1.running_mean"], measured[1]["bn1.running_mean"])


@pytest.mark.parametrize("width", [4, 8, 15, 16])
def test_networks_are_channels_last_and_compute_what_torchvisions_blocks_do(width):
    model = build_model("resnet18", CLASSES, 3, 16, width=width).eval()
    assert layout_of(model) is torch.channels_last
    plain = copy.deepcopy(model).to(memory_format=torch.contiguous_format)
    for layer in (plain.layer2, plain.layer3, plain.layer4):
        ours = layer[0].downsample[0]
        strided = nn.Conv2d(ours.in_channels, ours.out_channels, 1, stride=2, bias=False)
        strided.weight = ours.weight
        layer[0].downsample[0] = strided
    x = torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    model(x.to(memory_format=torch.channels_last)).square().mean().backward()
    plain(x).square().mean().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.linalg.vector_norm(ours.grad - theirs.grad) < 1e-4 * torch.linalg.vector_norm(theirs.grad)


def test_the_cnn_is_channels_last():
    assert layout_of(build_model("cnn", CLASSES, 1, 8)) is torch.channels_last

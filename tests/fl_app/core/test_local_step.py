# SPDX-License-Identifier: GPL-3.0-or-later
"""A client's local steps against torch's optimizer and clipping, bit for bit."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from fl_app.core.steps.local_step import LocalOptions, LocalSteps

STEPS, LR = 6, 0.05
PLAIN = LocalOptions(LR)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 36, 4))


def batches(steps=STEPS):
    rng = np.random.default_rng(1)
    images = torch.from_numpy(rng.normal(size=(steps, 7, 1, 8, 8)).astype(np.float32))
    return list(zip(images, torch.from_numpy(rng.integers(0, 4, (steps, 7))), strict=True))


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors]).numpy().copy()


def train(model, options, given):
    """Return the parameters after our steps, and the sum of the directions."""
    parameters = list(model.parameters())
    steps = LocalSteps(options, parameters)
    for images, labels in given:
        loss = nn.functional.cross_entropy(model(images), labels)
        steps.step(torch.autograd.grad(loss, parameters))
    return flat(parameters), steps.total()


def train_by_torch(model, options, given):
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=options.lr,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
        nesterov=options.nesterov,
    )
    for images, labels in given:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        if options.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
        optimizer.step()
    return flat(model.parameters())


def restored(model, w):
    torch.nn.utils.vector_to_parameters(torch.from_numpy(w.copy()), model.parameters())
    return model


ALL = [
    LocalOptions(LR, momentum, weight_decay, clip_norm, nesterov)
    for momentum, weight_decay, clip_norm, nesterov in itertools.product(
        (0.0, 0.9), (0.0, 0.01), (0.0, 0.2, 100.0), (False, True)
    )
    if momentum or not nesterov
]


@pytest.mark.parametrize("options", ALL, ids=str)
def test_parameters_have_torch_s_bits(model, options):
    first = flat(model.parameters())
    theirs = train_by_torch(model, options, batches())
    ours, _ = train(restored(model, first), options, batches())
    np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))


@pytest.mark.parametrize("options", ALL, ids=str)
def test_lr_times_the_sum_is_the_way_that_the_client_went(model, options):
    first = flat(model.parameters())
    last, total = train(model, options, batches())
    # STEPS roundings of w, by half a unit in the last place of numbers below 1, and as many of smaller sums.
    assert np.abs(first).max() < 1
    np.testing.assert_allclose(first - LR * total, last, rtol=0, atol=2 * STEPS * 2.0**-25)


def test_plain_sgd_sums_the_gradients_to_the_bit(model):
    parameters = list(model.parameters())
    first = flat(parameters)
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for images, labels in batches():
        gradients = torch.autograd.grad(nn.functional.cross_entropy(model(images), labels), parameters)
        with torch.no_grad():
            for parameter, total, gradient in zip(parameters, sums, gradients, strict=True):
                total += gradient
                parameter.sub_(gradient, alpha=LR)
    written_out = flat(parameters)
    ours, total = train(restored(model, first), PLAIN, batches())
    np.testing.assert_array_equal(ours.view(np.int32), written_out.view(np.int32))
    np.testing.assert_array_equal(total.view(np.int32), flat(sums).view(np.int32))


def test_only_a_norm_above_the_limit_is_clipped(model):
    first = flat(model.parameters())
    plain = train(model, PLAIN, batches(1))[1]
    norm = float(np.linalg.norm(plain))
    half = train(restored(model, first), LocalOptions(LR, clip_norm=norm / 2), batches(1))[1]
    np.testing.assert_allclose(half, plain / 2, rtol=1e-5)
    same = train(restored(model, first), LocalOptions(LR, clip_norm=2 * norm), batches(1))[1]
    np.testing.assert_array_equal(same, plain)


def test_gradients_stay_as_they_are():
    parameter, gradient = torch.ones(3), torch.full((3,), 5.0)
    steps = LocalSteps(LocalOptions(LR, 0.9, 0.1, 1.0, True), [parameter])
    for _ in range(3):
        steps.step([gradient])
    assert gradient.tolist() == [5, 5, 5]


def test_a_gradient_that_shares_its_memory_is_clipped_too():
    # The gradient of a plain sum is one number that torch shows three times.
    parameter = torch.zeros(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(parameter.sum(), [parameter])
    steps = LocalSteps(LocalOptions(1.0, clip_norm=0.5), [parameter])
    steps.step([gradient])
    assert float(np.linalg.norm(steps.total())) == pytest.approx(0.5, rel=1e-5)


def test_a_rate_of_zero_moves_nothing_and_still_has_directions(model):
    first = flat(model.parameters())
    last, total = train(model, LocalOptions(0.0), batches())
    np.testing.assert_array_equal(last, first)
    assert np.abs(total).max() > 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"lr": -1.0}, "lr must be a finite number >= 0, got -1.0"),
        ({"momentum": 1.0}, "momentum must be below 1, got 1.0"),
        ({"weight_decay": float("nan")}, "weight_decay must be a finite number >= 0, got nan"),
        ({"clip_norm": -0.5}, "clip_norm must be a finite number >= 0, got -0.5"),
        ({"nesterov": True}, "nesterov must be false where momentum is 0, got True"),
    ],
)
def test_wrong_options_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        LocalOptions(**{"lr": LR, **wrong})

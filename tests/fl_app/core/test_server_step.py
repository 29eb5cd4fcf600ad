# SPDX-License-Identifier: GPL-3.0-or-later
"""The server's optimizers against torch's."""

import numpy as np
import pytest
import torch

from fl_app.core.steps.server_step import ServerOptions
from tests.fl_app.core.fusing_torch import needs_fused_torch

D, ROUNDS = 4003, 12

OPTIONS = {
    "sgd": ServerOptions(),
    "momentum": ServerOptions("momentum", momentum=0.8),
    "nesterov": ServerOptions("momentum", momentum=0.8, nesterov=True),
    "adam": ServerOptions("adam", beta1=0.85, beta2=0.99, epsilon=1e-6),
}


def directions(rounds=ROUNDS, votes=False, seed=2):
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(rounds, D)).astype(np.float32)
    return np.sign(drawn) if votes else drawn


def rates(rounds=ROUNDS):
    return [0.05 * 0.9**t for t in range(rounds)]


def first_weights():
    return np.random.default_rng(1).normal(size=D).astype(np.float32)


def ours(name, given, step=None):
    step, w = step or OPTIONS[name].make(D), first_weights()
    for direction, rate in zip(given, rates(), strict=True):
        w = step.step(w, direction, rate)
    return w


def torch_s(name, given):
    w = torch.nn.Parameter(torch.from_numpy(first_weights()))
    if name == "adam":
        optimizer = torch.optim.Adam([w], betas=(0.85, 0.99), eps=1e-6)
    else:
        momentum = 0.0 if name == "sgd" else 0.8
        optimizer = torch.optim.SGD([w], lr=1.0, momentum=momentum, nesterov=name == "nesterov")
    for direction, rate in zip(given, rates(), strict=True):
        w.grad = torch.from_numpy(direction)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    return w.detach().numpy()


@needs_fused_torch
@pytest.mark.parametrize("votes", [False, True])
@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov"])
def test_sgd_has_torch_s_bits(name, votes):
    given = directions(votes=votes)
    np.testing.assert_array_equal(ours(name, given).view(np.int32), torch_s(name, given).view(np.int32))


@pytest.mark.parametrize("votes", [False, True])
def test_adam_is_torch_s(votes):
    given = directions(votes=votes)
    # Both round w once a round, by half a unit in the last place: at most 2^-22 for numbers below 8. Beside this, the
    # roundings of the movement itself, of a size near the rate, do not count.
    np.testing.assert_allclose(ours("adam", given), torch_s("adam", given), rtol=0, atol=ROUNDS * 2 * 2.0**-22)


def test_plain_sgd_on_votes_keeps_the_bits_of_two_roundings():
    w = first_weights()
    expected = w.copy()
    for direction, rate in zip(directions(votes=True), rates(), strict=True):
        expected = expected - np.float32(rate) * direction
    np.testing.assert_array_equal(ours("sgd", directions(votes=True)).view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("name", OPTIONS)
def test_the_model_given_stays_as_it_is(name):
    w, step = first_weights(), OPTIONS[name].make(D)
    moved = step.step(w, directions()[0], 0.1)
    np.testing.assert_array_equal(w, first_weights())
    assert moved.dtype == np.float32
    assert not np.array_equal(moved, w)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_goes_on_from_its_arrays(name):
    given, step, other = directions(), OPTIONS[name].make(D), OPTIONS[name].make(D)
    whole, w = ours(name, given), first_weights()
    for t, (direction, rate) in enumerate(zip(given, rates(), strict=True)):
        if t == ROUNDS // 2:
            other.load_arrays({key: array.copy() for key, array in step.arrays().items()})
            step = other
        w = step.step(w, direction, rate)
    np.testing.assert_array_equal(w, whole)


def test_arrays_that_do_not_fit_are_refused_and_change_nothing():
    step = OPTIONS["adam"].make(D)
    step.step(first_weights(), directions()[0], 0.1)
    before = {name: array.copy() for name, array in step.arrays().items()}
    with pytest.raises(ValueError, match=r"has the arrays \['mean', 'powers', 'square'\], not \['mean'\]"):
        step.load_arrays({"mean": before["mean"]})
    with pytest.raises(ValueError, match="square must be float32 of shape"):
        step.load_arrays({**before, "mean": 2 * before["mean"], "square": before["square"][1:]})
    for name, array in step.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    assert OPTIONS["sgd"].make(D).arrays() == {}


def test_an_entry_that_nobody_sent_does_not_move():
    zero = np.zeros(D, np.float32)
    for name, options in OPTIONS.items():
        step, w = options.make(D), first_weights()
        np.testing.assert_array_equal(step.step(w, zero, 0.1), w, err_msg=name)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"optimizer": "adamm"}, "unknown server optimizer 'adamm': did you mean 'adam'"),
        ({"momentum": 1.0}, "momentum must be below 1, got 1.0"),
        ({"beta2": -0.1}, "beta2 must be a finite number >= 0, got -0.1"),
        ({"epsilon": 0.0}, "epsilon must be a finite number > 0, got 0.0"),
    ],
)
def test_wrong_options_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        ServerOptions(**wrong)

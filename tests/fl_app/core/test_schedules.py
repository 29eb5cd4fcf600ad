# SPDX-License-Identifier: GPL-3.0-or-later
"""Learning-rate schedules against torch's."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from fl_app.core.steps.schedules import SCHEDULES, RateSchedule

BASE, ROUNDS, FACTOR, EVERY, FLOOR = 0.05, 40, 0.7, 6, 0.002


def schedule(name, warmup=0):
    return RateSchedule(BASE, ROUNDS, name, FACTOR, EVERY, FLOOR, warmup)


def torch_s(name, warmup):
    """Return the rate of each round by torch's schedulers."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    makers = {
        "constant": lambda: lr_scheduler.ConstantLR(optimizer, factor=1.0),
        "step": lambda: lr_scheduler.StepLR(optimizer, EVERY, FACTOR),
        "exponential": lambda: lr_scheduler.ExponentialLR(optimizer, FACTOR),
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, ROUNDS - warmup, FLOOR),
    }
    if warmup:
        linear = lr_scheduler.LinearLR(optimizer, 1 / (warmup + 1), total_iters=warmup)
        scheduler = lr_scheduler.SequentialLR(optimizer, [linear, makers[name]()], [warmup])
    else:
        scheduler = makers[name]()
    rates = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The epoch parameter", UserWarning)  # torch's own call inside SequentialLR
        for _ in range(ROUNDS):
            rates += scheduler.get_last_lr()
            optimizer.step()
            scheduler.step()
    return rates


@pytest.mark.parametrize("warmup", [0, 1, 5, ROUNDS - 1])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_torch_s(name, warmup):
    # torch computes a rate from the one before, so that some roundings of 1e-16 add up.
    assert [schedule(name, warmup).rate(t) for t in range(ROUNDS)] == pytest.approx(torch_s(name, warmup), rel=1e-12)


def test_a_constant_rate_has_the_bits_of_the_setting():
    assert {RateSchedule(0.01, 7).rate(t) for t in range(7)} == {0.01}


def test_a_cosine_stays_at_its_end():
    assert schedule("cosine", 3).rate(ROUNDS) == pytest.approx(FLOOR, rel=1e-12)
    assert schedule("cosine", 3).rate(10 * ROUNDS) == schedule("cosine", 3).rate(ROUNDS)


@given(
    st.floats(0, 10),
    st.integers(2, 1000),
    st.sampled_from(SCHEDULES),
    st.floats(0.01, 1),
    st.integers(1, 50),
    st.floats(0, 1),
    st.data(),
)
def test_a_rate_rises_to_the_base_and_never_again(base, rounds, name, factor, every, share, data):
    warmup = data.draw(st.integers(0, rounds - 1))
    one = RateSchedule(base, rounds, name, factor, every, base * share, warmup)
    rates = [one.rate(t) for t in range(rounds)]
    assert rates[warmup] == pytest.approx(base)
    assert all(0 <= rate <= base * (1 + 1e-12) for rate in rates)
    assert sorted(rates[: warmup + 1]) == rates[: warmup + 1]
    assert sorted(rates[warmup:], reverse=True) == rates[warmup:]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": "cosin"}, "unknown schedule 'cosin': did you mean 'cosine'"),
        ({"base": -0.1}, "base must be a finite number >= 0, got -0.1"),
        ({"rounds": 0}, "rounds must be an integer >= 1, got 0"),
        ({"factor": 0.0}, "factor must be a finite number > 0 and <= 1, got 0.0"),
        ({"every": 1.5}, "every must be an integer >= 1, got 1.5"),
        ({"floor": 0.2}, "floor must be at most base, 0.05, got 0.2"),
        ({"warmup": ROUNDS}, f"warmup must be an integer from 0 to {ROUNDS - 1}, got {ROUNDS}"),
    ],
)
def test_wrong_values_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        RateSchedule(**{"base": BASE, "rounds": ROUNDS, **wrong})


def test_rounds_count_from_zero():
    with pytest.raises(ValueError, match="t must be an integer >= 0, got -1"):
        schedule("step").rate(-1)

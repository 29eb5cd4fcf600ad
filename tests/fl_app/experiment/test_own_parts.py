# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that a script defines itself: classes, functions and objects, which no other process could import."""

import numpy as np
import pytest
import torch
from torch import nn

import fl_app as oac
from fl_app.core.selection import FairK
from fl_app.runs.metrics import without_times
from oac_blocks.dsp.waveform.schemes.registry import SCHEMES

D = 12


def linear():
    return nn.Linear(3, 3)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    inputs, targets = rng.normal(size=(80, 3)), np.arange(80) % 3
    return oac.Data((inputs[:60], targets[:60]), (inputs[60:], targets[60:]))


@pytest.fixture
def experiment(data):
    def make(**parts):
        parts = {"air": "ideal", "rho": 0.5, "clients": 3, **parts}
        return oac.Experiment(linear, data, local=oac.LocalSGD(steps=1, batch_size=4), **parts)

    return make


@pytest.fixture
def scheme_names():
    """Take back the schemes that a test has made known."""
    before = set(SCHEMES.names())
    yield
    for name in set(SCHEMES.names()) - before:
        SCHEMES.unregister(name)


def figures(run, rounds=4):
    return [without_times(row) for row in run.rounds(rounds)]


def test_a_policy_class_gets_the_facts_that_it_asks_for(experiment):
    class Copy(FairK):
        pass

    own = experiment(policy=Copy, k_m_ratio=0.5)
    assert figures(own) == figures(experiment(policy="fair-k", k_m_ratio=0.5))
    assert own.settings.selection.policy == "python:Copy"
    assert own.server.policy.k_m == 3


def test_a_policy_may_be_made_by_a_function_with_arguments(experiment):
    class First:
        def __init__(self, count):
            self.count = count

        def next(self, g, age):
            return np.arange(self.count)

    run = experiment(policy=lambda k, extra: First(k + extra), policy_args={"extra": 1})
    assert [row.k for row in run.rounds(3)] == [D, 7, 7]
    assert [row.k for row in experiment(policy=First(2)).rounds(3)] == [D, 2, 2]


def test_a_policy_class_that_fails_is_named(experiment):
    class Fails:
        def __init__(self, d):
            raise KeyError("weights")

    with pytest.raises(oac.OacError, match=r"policy = 'Fails': Fails\(\) raised KeyError: 'weights'"):
        _ = experiment(policy=Fails).server


class Mean:
    def __init__(self, seed=None, gain=1.0):
        self.seed, self.gain = seed, np.float32(gain)

    def uplink(self, payload, clients, t):
        return self.gain * payload.mean(axis=0, dtype=np.float64).astype(np.float32)


def without_air_time(row):
    return {
        key: value for key, value in row.items() if key not in ("symbols", "air_seconds", "air_joules", "air_hertz")
    }


def test_an_air_may_be_an_object_a_class_or_a_function(experiment):
    class Local(Mean):
        pass

    wanted = [without_air_time(row) for row in figures(experiment(air="ideal"))]
    for air in (Mean(), Local, lambda: Local()):
        assert [without_air_time(row) for row in figures(experiment(air=air))] == wanted
    assert experiment(air=Local, seed=5).run.training.air._own.seed == 5


def test_an_air_class_takes_arguments(experiment):
    class Local(Mean):
        pass

    run = experiment(air=Local, air_args={"gain": 0.0})
    before = run.server.w.copy()
    figures(run, 1)
    assert np.array_equal(run.server.w, before)


@pytest.mark.parametrize("scheme", ["onebit", "fsk-mv", oac.MajorityVote])
def test_an_air_object_says_which_scheme_it_carries(experiment, scheme):
    class Sum:
        def uplink(self, payload, clients, t):
            assert payload.dtype == np.int8
            return payload.sum(axis=0)

    Sum.scheme = scheme
    (row,) = experiment(air=Sum()).rounds(1)
    assert row.vote_error_rate == 0
    assert row.votes_compared > 0


def test_what_is_no_air_is_refused(experiment):
    with pytest.raises(oac.ConfigError, match=r"air must be a name, settings .* that makes one, not int"):
        experiment(air=3)


@pytest.mark.usefixtures("scheme_names")
def test_settings_of_an_air_take_a_scheme_or_its_class(experiment):
    def define(share):
        class Quiet(oac.MajorityVote):
            name = "quiet"

            def payload_of(self, entries, coins, abstain_below=0.0):
                return super().payload_of(entries, coins, float(np.quantile(np.abs(entries), share)))

        return Quiet

    all_abstain = oac.Ideal(scheme=define(1.0))
    assert all_abstain.mode == "quiet"
    (row,) = experiment(air=all_abstain, clients=1).rounds(1)
    assert row.votes_compared == 1  # the largest entry alone is not below the largest
    none_abstains = oac.Ideal(scheme=define(0.0)())  # defined anew, as a notebook does
    (row,) = experiment(air=none_abstains, clients=1).rounds(1)
    assert row.votes_compared == D


@pytest.mark.usefixtures("scheme_names")
def test_a_scheme_needs_a_name_of_its_own():
    class Nameless(oac.MajorityVote):
        pass

    with pytest.raises(ValueError, match="scheme 'onebit' must have a name that is free"):
        oac.Waveform(scheme=Nameless)
    with pytest.raises(ValueError, match="a name, a Scheme or a subclass of Scheme"):
        oac.Waveform(scheme=Mean)


def test_the_result_names_parts_as_the_program_does(experiment):
    class Last:
        def next(self, g, age):
            return np.arange(D - 2, D)

    result = experiment(policy=Last(), air=Mean()).train(2)
    assert (result["policy"], result["air"]) == ("Last", "Mean")


def test_numbers_of_numpy_will_do(experiment):
    run = experiment(clients=np.int64(2), rho=np.float32(0.5), server=np.float32(0.25), seed=np.uint8(3))
    assert (run.settings.clients.n, run.settings.selection.rho, run.settings.server.lr) == (2, 0.5, 0.25)
    assert type(run.settings.run.seed) is int
    assert oac.Waveform(repeats=np.int64(2), snr_db=np.float32(10)).repeats == 2
    with pytest.raises(oac.ConfigError, match=r"clients\] n = 2.0: must be a valid integer"):
        experiment(clients=np.float64(2))


@pytest.mark.parametrize("wrong", [np.zeros((4, 3)), torch.zeros(4, 3)])
def test_inputs_without_targets_are_refused_with_a_hint(wrong):
    with pytest.raises(oac.OacError, match=r"not \w+: write Data\(\(x, y\), \(x_test, y_test\)\)"):
        oac.Data(wrong, wrong)
